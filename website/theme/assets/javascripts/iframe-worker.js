// Search without a server: a browser starts no worker from a file, so its script runs in a frame of the page.
// The plugin `offline` of the theme looks for a file of this name, and would load one from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #began;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      this.#began = new Promise((began) => {
        document.addEventListener("DOMContentLoaded", () => this.#begin(address, began));
        if (document.readyState !== "loading") this.#begin(address, began);
      });
    }

    #begin(address, began) {
      if (this.#frame.isConnected) return;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.#say(data);
      inside.importScripts = () => {};
      const script = inside.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => began(inside));
      inside.document.body.append(script);
    }

    #say(data) {
      const message = new MessageEvent("message", { data });
      this.dispatchEvent(message);
      this.onmessage?.(message);
    }

    async postMessage(data) {
      const inside = await this.#began;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
