// Copy buttons copy commands: without prompts ($, >>>, ...), and without what the commands print.
const PROMPT = /^(\$|>>>|\.\.\.)( |$)/;

function commandsOf(text) {
  const commands = [];
  let continues = false;
  for (const line of text.split("\n")) {
    if (PROMPT.test(line) || continues) {
      commands.push(continues ? line : line.replace(PROMPT, ""));
      continues = line.endsWith("\\");
    }
  }
  return commands.join("\n");
}

document.addEventListener("click", event => {
  const button = event.target.closest("[data-clipboard-target]");
  const block = button && document.querySelector(button.dataset.clipboardTarget);
  if (block && block.closest(".language-console, .language-pycon"))
    button.dataset.clipboardText = commandsOf(block.textContent);
}, true);
