(function () {
  "use strict";
  var said = document.getElementById("said");

  function select(node) {
    var range = document.createRange();
    range.selectNodeContents(node);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  // Without a script there is no button, and one click on a command selects all of it.
  document.querySelectorAll("pre[data-copy]").forEach(function (block) {
    var button = document.createElement("button");
    var what = block.dataset.copy;
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy " + what;
    button.addEventListener("click", function () {
      var code = block.querySelector("code");
      function tell(text) { said.textContent = text; button.textContent = text; }
      function byHand() { select(code); tell("Selected: press Ctrl+C"); }
      if (!navigator.clipboard) { byHand(); return; }
      navigator.clipboard.writeText(code.textContent).then(function () { tell("Copied " + what); }, byHand);
    });
    block.after(button);
  });

  function valueOf(row, index) {
    var text = row.cells[index].textContent.trim();
    var number = /^-?[\d,]+(\.\d+)?$/.test(text) ? parseFloat(text.replace(/,/g, "")) : NaN;
    return { text: text, number: number };
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    heads.forEach(function (head, index) {
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.prototype.slice.call(head.childNodes));
      head.append(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        Array.prototype.slice.call(table.tBodies[0].rows).map(function (row) {
          return { row: row, value: valueOf(row, index) };
        }).sort(function (a, b) {
          var x = a.value, y = b.value, order;
          if (isNaN(x.number) || isNaN(y.number)) {
            // What is not known stands last, whichever way one sorts.
            if (isNaN(x.number) !== isNaN(y.number)) { return isNaN(x.number) ? 1 : -1; }
            order = x.text.localeCompare(y.text);
          } else { order = x.number - y.number; }
          return down ? -order : order;
        }).forEach(function (item) { table.tBodies[0].append(item.row); });
      });
    });
  });

  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details.data").forEach(function (part) { part.open = true; });
  });
})();
