// Comfort only: every page works without it.
"use strict";
(() => {
  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const label = button.textContent;
      try {
        await copy(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }
  // #L5-L9 marks several lines; a shift-click on a number extends the mark.
  const mark = () => {
    for (const line of document.querySelectorAll("tr.marked")) line.classList.remove("marked");
    const range = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
    if (!range) return;
    const first = Number(range[1]), last = Number(range[2] || range[1]);
    for (let n = first; n <= Math.min(last, first + 5000); n++) {
      document.getElementById("L" + n)?.classList.add("marked");
    }
    if (range[2]) document.getElementById("L" + first)?.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", mark);
  mark();
  document.querySelector("table.code")?.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#L']");
    const from = /^#L(\d+)/.exec(location.hash);
    if (!link || !event.shiftKey || !from) return;
    event.preventDefault();
    const lines = [Number(from[1]), Number(link.hash.slice(2))].sort((a, b) => a - b);
    location.hash = `L${lines[0]}-L${lines[1]}`;
  });
  // Times told by their distance stay right.
  const span = (seconds) => {
    if (seconds < 120) return `${seconds} s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} days`;
  };
  const tell = (root) => {
    for (const time of root.querySelectorAll("time[data-ago]")) {
      const ahead = Math.trunc((Date.parse(time.dateTime) - Date.now()) / 1000);
      if (Number.isNaN(ahead)) continue;
      const far = span(Math.abs(ahead));
      const text = ahead === 0 ? "now" : ahead > 0 ? `in ${far}` : `${far} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  };
  tell(document);
  setInterval(() => { if (!document.hidden) tell(document); }, 1000);
  // A part that changes is sent anew; never while something in it has the focus or is selected.
  for (const part of document.querySelectorAll("[data-live]")) {
    let latest = null, source = null;
    const show = () => {
      const selection = getSelection();
      const isSelected = !selection.isCollapsed && selection.containsNode(part, true);
      if (latest === null || isSelected || part.contains(document.activeElement)) return;
      part.innerHTML = latest;
      latest = null;
      tell(part);
    };
    const follow = () => {
      source?.close();
      source = null;
      if (document.hidden) return;
      source = new EventSource(part.dataset.live);
      source.onmessage = (event) => { latest = event.data; show(); };
      source.onerror = () => {
        // Refused, not interrupted: the node is busy or stops.
        if (source?.readyState === EventSource.CLOSED) setTimeout(follow, 60000);
      };
    };
    setInterval(show, 1000);
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => source?.close());
    follow();
  }
  // A list of branches leads to the one that is chosen.
  for (const select of document.querySelectorAll("select[data-go]")) {
    select.addEventListener("change", () => select.form.submit());
  }
})();
