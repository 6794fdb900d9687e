const WIDTH = 40;

/** Shows a progress bar on standard error, if that is a terminal: one line, which is drawn again at each update. */
export function startProgress(
  title: string,
  total: number,
): { update(done: number): void; stop(): void } {
  const { stderr } = process;
  const draw = (share: number): void => {
    const bar = '='.repeat(Math.round(share * WIDTH)).padEnd(WIDTH);
    stderr.write(`\r${title} [${bar}] ${Math.round(share * 100)} %`);
  };
  let isShown = stderr.isTTY;
  if (isShown) draw(0);
  return {
    update(done) {
      if (isShown) draw(total > 0 ? Math.min(1, done / total) : 1);
    },
    stop() {
      if (isShown) stderr.write('\n');
      isShown = false;
    },
  };
}
