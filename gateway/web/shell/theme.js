// Sets the wanted colours before anything is drawn. A classic script in the head, so that no page flashes.
(() => {
  try {
    const wanted = localStorage.getItem("duplex-es.theme");
    if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
  } catch {
    // Storage may be forbidden; the system's choice holds then.
  }
})();
