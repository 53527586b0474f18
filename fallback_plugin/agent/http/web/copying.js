/** What the button at a block of code does. */

const SAID_FOR_MS = 2_000;

/** Copy the block before a button. Where the browser does not let a page do that, the block is selected for the person. */
export async function copyBlock(button) {
  const block = button.previousElementSibling;
  let words = 'Copied';
  try {
    await navigator.clipboard.writeText(block.textContent); // not there where the connection is not secure
  } catch {
    getSelection().selectAllChildren(block);
    words = 'Selected';
  }
  button.textContent = words;
  setTimeout(() => (button.textContent = 'Copy'), SAID_FOR_MS);
}
