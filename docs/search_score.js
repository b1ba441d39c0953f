// A page comes first in the site's search where its title has the words that were typed; a page whose title is a question
// comes before lessons and references that have as many, and of these the shortest title comes first. Sphinx alone counts
// the best word only.
const TYPED = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().match(/[\p{L}\p{N}]+/gu) || [];

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const told = title.toLowerCase();
    const words = TYPED.filter((word) => told.includes(word.replace(/s$/, "")));
    const place = docname.includes("/") ? 0 : told.includes("?") ? 2 : 1;
    return score + 30 * words.length + 5 * place - told.length / 100;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
