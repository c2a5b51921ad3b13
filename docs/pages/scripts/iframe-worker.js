/* A site that is opened as files has no workers, as browsers refuse them there, and so no search. Here a worker is a
   frame that is not shown: its script runs in a window of its own, and messages are events. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script>
        const here = window, told = frameElement.told;
        here.postMessage = data => told(data);
        here.importScripts = (...urls) => Promise.all(urls.map(url => new Promise((done, failed) => {
          const script = Object.assign(document.createElement("script"), { src: url, onload: done, onerror: failed });
          document.head.append(script);
        })));
      <\/script><script src="${url}"><\/script>`;
      this.frame.told = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.frame.onload = () => {
        this.ready = true;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      };
      document.body.append(this.frame);
    }
    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new this.frame.contentWindow.MessageEvent("message", { data }));
    }
    terminate() { this.frame.remove(); }
  };
}
