/**
 * Ends the process immediately on SIGTERM or SIGINT, until {@link endEarlyExit} is called.
 *
 * The image loads this file before everything else (`node --import`). As process 1 of a container, Node ignores a signal
 * that has no handler, and a slow node needs seconds to load the modules. Without this file, a pod that gets SIGTERM
 * during its start would run until SIGKILL.
 */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

const exit = (): void => process.exit(0);
for (const signal of SIGNALS) process.on(signal, exit);

/** Removes the handlers above. The caller must have set its own handlers. */
export function endEarlyExit(): void {
  for (const signal of SIGNALS) process.off(signal, exit);
}
