import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const TOP = 25;

const profile = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({ functionName: z.string(), url: z.string(), lineNumber: z.number() }),
    }),
  ),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
});

/** Prints where each process spent its own time: by part, then by function. */
export function printProfiles(folder: string): void {
  for (const name of readdirSync(folder)) {
    const files = readdirSync(join(folder, name)).filter((file) => file.endsWith('.cpuprofile'));
    for (const file of files) {
      process.stdout.write(`\nprofile of ${name} (${file})\n`);
      const read = profile.parse(JSON.parse(readFileSync(join(folder, name, file), 'utf8')));
      for (const line of topOf(read)) process.stdout.write(`  ${line}\n`);
    }
  }
}

function topOf({ nodes, samples, timeDeltas }: z.infer<typeof profile>): string[] {
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]));
  const parts = new Map<string, number>();
  const functions = new Map<string, number>();
  let busy = 0;
  for (const [at, id] of samples.entries()) {
    const frame = byId.get(id);
    const time = timeDeltas[at] ?? 0;
    if (!frame || frame.functionName === '(idle)') continue;
    busy += time;
    const part = partOf(frame.url) || frame.functionName;
    parts.set(part, (parts.get(part) ?? 0) + time);
    const where = `${frame.functionName || '(anonymous)'} ${fileOf(frame.url)}:${frame.lineNumber + 1}`;
    functions.set(where, (functions.get(where) ?? 0) + time);
  }
  const share = (time: number) => `${((100 * time) / busy).toFixed(1)} %`.padStart(7);
  const top = (map: Map<string, number>) =>
    [...map]
      .sort(([, a], [, b]) => b - a)
      .slice(0, TOP)
      .map(([name, time]) => `${share(time)}  ${name}`);
  return [`busy ${(busy / 1e6).toFixed(1)} s`, ...top(parts), '--', ...top(functions)];
}

/** The package, or the folder of ours, that a script belongs to. */
function partOf(url: string): string {
  const [, inPackage] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (inPackage) return inPackage;
  if (url.startsWith('node:')) return url.split('/').slice(0, 2).join('/');
  return fileOf(url).split('/').slice(0, 3).join('/');
}

function fileOf(url: string): string {
  return url.replace(/^.*?\/((?:services|gateway|proto|test|deploy|node_modules)\/)/, '$1');
}
