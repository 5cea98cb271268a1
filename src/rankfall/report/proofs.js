"use strict";
(() => {
  const held = new Map([...document.querySelectorAll("[data-certificate]")]
    .map((element) => [element.dataset.certificate, element.textContent.trim()]));
  const views = [...document.querySelectorAll(".proofs")];
  const queue = []; // the certificates that are waiting
  const asked = new Set();
  const reports = new Map();

  /* The text of a certificate: base 64, then gzip. */
  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(await new Response(plain).arrayBuffer());
  }

  async function judged(packed) {
    try {
      return checkText(await unpack(packed));
    } catch (error) {
      const why = typeof DecompressionStream === "undefined" ? "this browser cannot unpack it" : "it is damaged";
      return { accepted: false, claims: [], malformed: `${why} (${error.name}).`, told: {}, milliseconds: 0 };
    }
  }

  /* A worker checks, so that the page never stands still; where there is none, the page itself, one by one. */
  function judge() {
    const checker = document.getElementById("checker").textContent;
    const answer = "onmessage = async ({ data }) => postMessage(await judged(data));";
    let worker = null;
    try {
      const source = new Blob([checker, `\n${unpack}\n${judged}\n${answer}`], { type: "text/javascript" });
      worker = new Worker(URL.createObjectURL(source));
    } catch { /* none is allowed here */ }
    const here = async (packed) => {
      await new Promise((resolve) => { setTimeout(resolve, 20); });
      return judged(packed);
    };
    return (packed) => (worker === null ? here(packed) : new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        worker = null;
        resolve(here(packed));
      };
      worker.postMessage(packed);
    }));
  }

  let checking = null;
  let busy = false;
  async function ask(names) {
    const news = names.filter((name) => !asked.has(name));
    news.forEach((name) => asked.add(name));
    queue.push(...news);
    if (busy) return;
    busy = true;
    checking ??= judge();
    while (queue.length) {
      const name = queue.shift();
      reports.set(name, await checking(held.get(name) ?? ""));
      for (const view of views) if (namesOf(view).includes(name)) show(view);
      summarise();
    }
    busy = false;
  }

  const namesOf = (view) => [...view.querySelectorAll("[data-proof]")].map((line) => line.dataset.proof);
  const time = (ms) => (ms < 999.5 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toPrecision(2)} s`);
  const many = (count) => (count === 1 ? "certificate" : `${count} certificates`);
  const reason = ({ malformed, claims }) => malformed || claims.find(({ holds }) => !holds).sentence;

  /* How far the checking of some certificates is: a word for the style, and a sentence. */
  function told(names) {
    const found = names.map((name) => reports.get(name)).filter(Boolean);
    const bad = found.filter(({ accepted }) => !accepted);
    const took = time(found.reduce((total, { milliseconds }) => total + milliseconds, 0));
    if (found.length < names.length) return ["", `checking ${found.length + 1} of ${names.length} …`];
    if (!bad.length) return ["yes", `✓ ${many(names.length)} checked in your browser in ${took}`];
    const which = names.length === 1 ? "certificate" : `${bad.length} of ${many(names.length)}`;
    return ["no", `✗ ${which} refused: ${reason(bad[0])}`];
  }

  function show(view) {
    const names = namesOf(view);
    const state = view.querySelector(".state > .script");
    [state.className, state.textContent] = told(names);
    state.classList.add("script");
    for (const line of view.querySelectorAll("[data-proof]")) {
      const report = reports.get(line.dataset.proof);
      if (!report) continue;
      const outcome = line.querySelector(".outcome");
      outcome.className = `outcome ${report.accepted ? "yes" : "no"}`;
      outcome.textContent = report.accepted ? `✓ ${time(report.milliseconds)}` : `✗ ${report.malformed}`;
      line.querySelector("ul").replaceChildren(...report.claims.map(({ holds, sentence }) => {
        const item = document.createElement("li");
        item.textContent = holds ? sentence : `✗ ${sentence}`;
        return item;
      }));
    }
  }

  const every = document.getElementById("every");
  const checked = document.getElementById("checked");
  function summarise() {
    if (!every.disabled) return;
    [checked.className, checked.textContent] = told([...held.keys()]);
  }
  every.addEventListener("click", () => {
    every.disabled = true;
    ask([...held.keys()]);
    summarise();
  });

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      show(target);
      ask(namesOf(target));
    }
  }, { rootMargin: "100px" });

  for (const view of views) {
    seen.observe(view);
    for (const line of view.querySelectorAll("[data-proof]")) {
      line.querySelector("a").addEventListener("click", (event) => {
        event.preventDefault();
        save(line.dataset.proof);
      });
    }
  }

  async function save(name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await unpack(held.get(name))], { type: "application/json" }));
    link.download = name.split("/").pop();
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }
})();
