import { problemsIn } from './check/problems.ts';
import { renderOverlay } from './check/render.ts';

/**
 * `node deploy/check.ts <overlay> …` renders overlays and lists what must not reach production. Exits with 1 if there is
 * anything. Needs kubectl, but no cluster.
 */
const overlays = process.argv.slice(2);
if (overlays.length === 0) {
  process.stderr.write('usage: node deploy/check.ts <overlay> …\n');
  process.exitCode = 2;
}
for (const overlay of overlays) {
  try {
    const problems = await problemsIn(renderOverlay(overlay));
    for (const line of problems) process.stderr.write(`${overlay}: ${line}\n`);
    if (problems.length > 0) process.exitCode = 1;
    else process.stdout.write(`${overlay}: nothing found\n`);
  } catch (error) {
    process.stderr.write(`${overlay}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
