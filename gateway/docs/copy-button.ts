/** The address of {@link COPY_SCRIPT}. */
export const COPY_PATH = '/docs/copy.js';

/**
 * Puts a button above each sample of commands or code, which copies it. Pages without a script stay complete. There are
 * no buttons when the browser offers no clipboard. Browsers offer it only over https and on the own machine. Runs in
 * the browser.
 */
export const COPY_SCRIPT = `const [COPY, COPIED] = ['Copy', 'Copied'];
function addButton(sample) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = COPY;
  button.setAttribute('aria-live', 'polite');
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(sample.textContent);
    button.textContent = COPIED;
    setTimeout(() => { button.textContent = COPY; }, 2000);
  });
  sample.before(button);
}
if (navigator.clipboard) document.querySelectorAll('pre').forEach(addButton);
`;
