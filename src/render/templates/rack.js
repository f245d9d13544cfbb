(function () {
  "use strict";
  var main = document.getElementById("main"), live = document.getElementById("live");
  if (!window.EventSource || !window.fetch) return;
  var busy = false, again = false;
  function say(text, how) { live.textContent = text; live.className = how; }
  function load() {
    if (busy) { again = true; return; }
    busy = true;
    fetch(main.dataset.part, { credentials: "same-origin", cache: "no-store" })
      .then(function (answer) { return answer.ok ? answer.text() : Promise.reject(answer.status); })
      .then(function (text) {
        var open = main.querySelector("details[open]");
        main.innerHTML = text;
        if (open) { var again = main.querySelector("details"); if (again) again.open = true; }
        say("live", "on");
      })
      .catch(function () { say("not current", "off"); })
      .then(function () { busy = false; if (again) { again = false; load(); } });
  }
  var events = new EventSource("/live");
  events.onopen = function () { say("live", "on"); };
  events.onmessage = load;
  events.onerror = function () { say("connection lost, trying again", "off"); };
})();
