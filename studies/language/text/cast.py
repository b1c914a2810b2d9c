"""Who and what stories are about: people, things in their categories, and the forms of words."""

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

_GIRLS = (
    "Abby Ada Alice Amanda Amber Amelia Amy Ana Andrea Angela Anna Annie April Aria Ashley Audrey "
    "Ava Beatrice Becky Bella Beth Betty Bianca Brenda Brianna Bridget Camila Carla Carmen Carol "
    "Carrie Cassie Cathy Celia Charlotte Chloe Christina Cindy Claire Clara Cora Cynthia Daisy "
    "Dana Daniela Debbie Diana Donna Dora Dorothy Edith Elena Eliza Ella Ellen Elsa Emily Emma "
    "Erica Erin Esther Eva Evelyn Faith Fatima Fiona Flora Gabriela Gina Gloria Grace Hailey Hana "
    "Hannah Hazel Heather Heidi Helen Ida Ines Irene Iris Isabel Ivy Jane Janet Jasmine Jenna "
    "Jenny Jessica Jill Joan Josie Joy Joyce Judy Julia Kara Karen Kate Katie Kayla Kelly Kim "
    "Kira Kristen Lara Laura Layla Lena Leah Lily Linda Lisa Lola Lucia Lucy Luna Lydia Maggie "
    "Maria Martha Mary Maya Megan Melanie Melissa Mia Mila Molly Monica Nadia Nancy Naomi Natalie "
    "Nina Nora Olga Olivia Paige Pamela Patricia Paula Penny Priya Rachel Rebecca Rita Robin Rosa "
    "Rose Ruby Ruth Sadie Sally Samantha Sandra Sara Sasha Selena Sharon Sheila Sofia Sonia Stella "
    "Stephanie Susan Sylvia Tamara Tanya Tara Tessa Tina Tracy Valerie Vanessa Vera Vicky Violet "
    "Wanda Wendy Yara Yasmin Yuki Zoe"
)
_BOYS = (
    "Aaron Adam Ahmed Alan Albert Alex Alfred Andre Andrew Andy Anthony Arthur Ben Bill Billy Bob "
    "Boris Brad Brandon Brian Bruce Bruno Bryan Caleb Carl Carlos Chad Charles Charlie Chris "
    "Clark Colin Connor Craig Curtis Dale Damian Dan Daniel Darren David Dean Dennis Derek Diego "
    "Dominic Donald Doug Dylan Earl Ed Eddie Edgar Edward Eli Elias Emil Eric Ernest Ethan Evan "
    "Felix Finn Frank Fred Gabriel Gary Gavin George Gerald Glenn Gordon Grant Greg Gus Harold "
    "Harry Hassan Hector Henry Howard Hugh Hugo Ian Isaac Ivan Jack Jacob Jake James Jamie Jared "
    "Jason Jay Jeff Jeremy Jerry Jesse Jim Jimmy Joe Joel John Johnny Jonah Jordan Jorge Jose "
    "Joseph Josh Juan Julian Justin Keith Ken Kenny Kevin Kyle Lance Larry Lee Leo Leon Liam "
    "Logan Louis Lucas Luis Luke Manuel Marco Marcus Mario Mark Martin Marvin Mason Matt Max "
    "Michael Miguel Mike Milo Mitch Nate Nathan Neil Nick Noah Norman Omar Oscar Otto Owen Pablo "
    "Patrick Paul Pedro Pete Peter Phil Philip Rafael Ralph Ramon Randy Ravi Ray Ricardo Richard "
    "Rick Rob Robert Roger Roland Ron Ross Roy Russell Ryan Sam Samuel Scott Sean Sebastian Seth "
    "Simon Stan Stefan Steve Stuart Ted Teo Terry Theo Thomas Tim Toby Todd Tom Tony Travis Tyler "
    "Victor Vincent Wade Walter Warren Wayne Will William Xavier Zach"
)
GIRLS, BOYS = tuple(_GIRLS.split()), tuple(_BOYS.split())

# Names that are other words as well are not replaced in a text.
_WORDS_TOO = (
    "Amber April Bill Carol Chad Charlotte Clark Dale Daisy Dean Earl Faith Flora Frank Grace "
    "Grant Hazel Heather Iris Ivy Jasmine Jay Jordan Joy Lance Lee Lily Luna Marco Mark Mason Max "
    "Milo Paige Penny Ray Robin Rose Ruby Scott Stella Victor Violet Wade Warren Will"
)
_RENAMED = {
    name: group for group in (GIRLS, BOYS) for name in group if name not in _WORDS_TOO.split()
}
_CAPITALISED = re.compile(r"\b[A-Z][a-z]+\b")

# Singulars; a "/" gives an irregular plural. A story asks for a category by its name.
CATEGORIES: dict[str, tuple[str, ...]] = {
    name: tuple(entry.strip() for entry in listed.split(","))
    for name, listed in {
        "thing": (
            "marble, sticker, baseball card, coin, seashell, button, pencil, crayon, bead, stamp, "
            "toy car, comic book, postcard, rubber band, paper clip, key chain, balloon, puzzle, "
            "magnet, ribbon, action figure, bottle cap, trading card, badge, poster, dinosaur toy, "
            "plastic ring, pin, bookmark, eraser, notebook, pen, bracelet, ticket, toy soldier, "
            "building block, yo-yo, whistle, stuffed bear, glow stick, game token, sea stone"
        ),
        "food": (
            "cookie, cupcake, muffin, donut, brownie, pancake, sandwich/sandwiches, candy bar, "
            "cracker, pretzel, bagel, chocolate, lollipop, biscuit, waffle, taco, meatball, "
            "gumdrop, cheese stick, granola bar, dumpling, spring roll, mint, caramel, "
            "slice of pizza"
        ),
        "fruit": (
            "apple, orange, pear, peach/peaches, plum, lemon, banana, mango/mangoes, kiwi, fig, "
            "strawberry, cherry, apricot, melon, lime, grapefruit, coconut, tomato/tomatoes, "
            "pumpkin, carrot, potato/potatoes, onion, cucumber, pepper, turnip"
        ),
        "flower": (
            "rose, tulip, daisy, lily, sunflower, orchid, carnation, violet, marigold, iris, "
            "daffodil, poppy, peony, dandelion"
        ),
        "plant": (
            "oak tree, maple tree, pine tree, bush/bushes, palm tree, rose bush/rose bushes, "
            "apple tree, tomato plant, willow tree, cactus/cacti, fern, berry bush/berry bushes"
        ),
        "animal": (
            "cow, horse, goat, pig, duck, chicken, rabbit, sheep/sheep, turkey, goose/geese, dog, "
            "cat, parrot, hamster, turtle, lamb, pony, donkey, hen, llama"
        ),
        "pet": (
            "parrot, hamster, rabbit, mouse/mice, canary, turtle, kitten, puppy, guinea pig, "
            "lizard, gerbil, finch/finches"
        ),
        "wild": (
            "bird, squirrel, frog, butterfly, dragonfly, crow, swan, deer/deer, beaver, owl, "
            "sparrow, lizard, ladybug, bee, pigeon, seagull, monkey, penguin, bat, ant"
        ),
        "people": (
            "student, visitor, child/children, guest, player, dancer, worker, teacher, passenger, "
            "swimmer, camper, scout, singer, runner, tourist, member, fan, shopper, actor, cook"
        ),
        "vehicle": (
            "car, truck, bus/buses, van, bicycle, motorcycle, taxi, scooter, boat, train, tractor"
        ),
        "baked": (
            "cake, pie, loaf of bread/loaves of bread, cookie, muffin, pastry, roll, tart, bun, "
            "croissant, cupcake, pretzel, scone, bagel"
        ),
        "garment": (
            "shirt, hat, scarf/scarves, sweater, jacket, sock, skirt, tie, coat, glove, T-shirt, "
            "dress/dresses, belt, cap, apron"
        ),
        "reading": (
            "book, magazine, newspaper, comic book, novel, story, poem, letter, report, article"
        ),
        "tool": (
            "hammer, screw, nail, brush/brushes, bucket, rope, ladder, lamp, chair, table, plate, "
            "cup, bowl, spoon, fork, candle, basket, pillow, blanket, towel, mug, vase, clock"
        ),
        "ware": (
            "notebook, pen, toy, hat, scarf/scarves, mug, book, game, plant, lamp, ball, "
            "backpack, poster, puzzle, shirt, candle, umbrella, water bottle, album, kite, doll"
        ),
        "box": (
            "box/boxes, bag, basket, jar, crate, bucket, tray, carton, drawer, bin, packet, case, "
            "tin, bowl, container, pouch/pouches, chest, sack"
        ),
        "group": "team, group, class/classes, row, table, tent, bus/buses, boat, van, club",
        "room": (
            "kitchen, attic, garage, basement, living room, garden, hallway, bedroom, closet, "
            "classroom, office, shed, library, cafeteria, backyard"
        ),
        "shop": (
            "store, market, mall, fair, toy shop, corner shop, bookstore, supermarket, yard sale, "
            "gift shop, bakery, museum shop"
        ),
        "event": (
            "party, picnic, school fair, birthday, family dinner, meeting, festival, bake sale, "
            "parade, summer camp, field trip, concert, game night, wedding, talent show"
        ),
        "colour": "red, blue, green, yellow, white, black, purple, orange, pink, brown, silver",
        "size": "small, large, tiny, big, medium-sized, new, old, shiny, plain, striped",
        "day": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
        "month": "January, February, March, April, May, June, July, August, September, October",
        "kin": (
            "brother, sister, cousin, uncle, aunt, grandmother, grandfather, neighbor, friend, "
            "teacher, mother, father, classmate"
        ),
        "sport": "soccer, basketball, baseball, hockey, tennis, volleyball, football, handball",
        "subject": "math, science, history, art, English, music, geography, biology, Spanish",
        "liquid": "water, milk, juice, paint, oil, lemonade, gasoline, soup, tea",
        "powder": "flour, sugar, rice, salt, oats, cocoa, butter, cornmeal",
        "exercise": "push-up, sit-up, jumping jack, squat, pull-up, lap, burpee",
        "work": (
            "washing cars, mowing lawns, walking dogs, babysitting, selling lemonade, "
            "raking leaves, delivering newspapers, painting fences, tutoring, shoveling snow, "
            "feeding pets"
        ),
        "school": "Lincoln, Oakwood, Riverside, Hillside, Maple Grove, Westfield, Brookview",
        "town": "Greenville, Lakeside, Milltown, Fairview, Springdale, Northport, Ashford, Kenton",
    }.items()
}  # fmt: skip
# What people do: as it stands after "did", and of the past.
VERBS: dict[str, tuple[str, ...]] = {
    name: tuple(entry.strip() for entry in listed.split(","))
    for name, listed in {
        "get": (
            "find/found, buy/bought, collect/collected, receive/received, win/won, get/got, "
            "gather/gathered, pick up/picked up, order/ordered"
        ),
        "lose": (
            "lose/lost, sell/sold, give away/gave away, donate/donated, throw away/threw away, "
            "drop/dropped, trade away/traded away, misplace/misplaced, hand out/handed out, "
            "mail/mailed, break/broke, use/used"
        ),
        "eat": (
            "eat/ate, sell/sold, serve/served, share/shared, pack/packed, give away/gave away, "
            "drop/dropped, freeze/froze"
        ),
        "bake": (
            "bake/baked, make/made, prepare/prepared, decorate/decorated, wrap/wrapped, "
            "finish/finished"
        ),
        "pick": "pick/picked, harvest/harvested, gather/gathered, collect/collected, wash/washed",
        "craft": (
            "paint/painted, build/built, fold/folded, sew/sewed, draw/drew, make/made, "
            "polish/polished, repair/repaired, sort/sorted"
        ),
        "find": "find/found, collect/collected, gather/gathered, pick up/picked up",
        "see": "see/saw, count/counted, photograph/photographed, spot/spotted, draw/drew",
    }.items()
}  # fmt: skip
PAST = {entry.split("/")[0]: entry.split("/")[1] for listed in VERBS.values() for entry in listed}
_PLURALS = {
    entry.split("/")[0]: entry.split("/")[1]
    for listed in CATEGORIES.values()
    for entry in listed
    if "/" in entry
}
_PLURALS |= {
    "foot": "feet", "inch": "inches", "person": "people", "shelf": "shelves", "bench": "benches",
    "dish": "dishes", "glass": "glasses", "half": "halves", "match": "matches", "child": "children",
    "branch": "branches", "man": "men", "woman": "women", "fish": "fish", "goldfish": "goldfish",
    "angelfish": "angelfish", "catfish": "catfish", "shrimp": "shrimp", "photo": "photos",
    "loaf": "loaves", "scarf": "scarves", "knife": "knives", "mouse": "mice", "cactus": "cacti",
    "piano": "pianos", "iris": "irises", "calf": "calves",
}  # fmt: skip
PLACES = frozenset(("room", "shop", "event", "colour", "size", "day", "month", "kin", "sport",
                    "subject", "liquid", "powder", "work", "school", "town"))  # fmt: skip


class Person(NamedTuple):
    """Somebody in a story."""

    name: str
    is_girl: bool

    def pronoun(self, word: str) -> str:
        """Return "she" for "he" and so on, where it is a girl."""
        if not self.is_girl:
            return word
        return {"he": "she", "his": "her", "him": "her", "himself": "herself"}[word]


def people(rng: random.Random, count: int) -> list[Person]:
    """Return people of different names; two of them are mostly a girl and a boy."""
    is_girl = rng.random() < 0.5
    cast: list[Person] = []
    while len(cast) < count:
        person = Person(rng.choice(GIRLS if is_girl else BOYS), is_girl)
        if all(person.name != other.name for other in cast):
            cast.append(person)
            is_girl = is_girl != (rng.random() < 0.75)
    return cast


def renamed(texts: Sequence[str], rng: random.Random) -> list[str]:
    """Return texts in which people have other names, the same in all of them."""
    words = dict.fromkeys(_CAPITALISED.findall(" ".join(texts)))
    names: dict[str, str] = {}
    for word in words:
        if word in _RENAMED:
            fresh = [name for name in _RENAMED[word] if name not in words]
            names[word] = rng.choice([name for name in fresh if name not in names.values()])
    return [_CAPITALISED.sub(lambda m: names.get(m.group(), m.group()), text) for text in texts]


def words_of_category(rng: random.Random, name: str, count: int) -> list[str]:
    """Return different words of a category: nouns in the singular, verbs as after "did"."""
    listed = VERBS[name] if name in VERBS else CATEGORIES[name]
    return [entry.split("/")[0] for entry in rng.sample(listed, count)]


def plural(word: str) -> str:
    """Return the plural of a noun: "toy car" is "toy cars"."""
    if word in _PLURALS:
        return _PLURALS[word]
    head, of, rest = word.partition(" of ")
    if of:
        return plural(head) + of + rest
    head, _, last = word.rpartition(" ")
    if last in _PLURALS:
        return f"{head} {_PLURALS[last]}".strip()
    if last.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def with_article(word: str) -> str:
    """Return "an apple", "a box"."""
    first = word.split("-")[0].lower()
    vowel = word[0].lower() in "aeiou" and not first.startswith(("uni", "one", "eu", "use"))
    return ("an " if vowel or first == "hour" else "a ") + word
