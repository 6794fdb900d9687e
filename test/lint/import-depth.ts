import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

// `npm run lint`: how many files a reader opens one after the other, from the entry of a service to the last file
// that it needs. Types do not count, because a type says what a file needs without its code. Biome finds cycles.

interface Limit {
  readonly folder: string;
  readonly entry: string;
  /** Maximum number of files in one chain of imports, with the entry. */
  readonly files: number;
}

/**
 * Six files of returns: main, start, the routes, the use case, a rule, and what the rule needs. `start.ts` makes the
 * stores, and use cases get them as an argument (docs/adr/0024-stores-as-arguments.md). If a chain becomes longer, hand
 * in what the lowest file needs, or move a rule to the file that has its data. Merge files only if they are one idea.
 */
const LIMITS: readonly Limit[] = [
  { folder: 'services/returns', entry: 'services/returns/main.ts', files: 6 },
];

/** Imports of relative files, except `import type`. */
const IMPORT = /^(?:import|export)\s(?!type\s)(?:[^;']*?\sfrom\s)?'(\.[^']+)';/gm;

for (const { folder, entry, files } of LIMITS) {
  const known = new Set(
    execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', folder], {
      encoding: 'utf8',
    }).split('\n'),
  );
  const chain = longestChain(entry, importsOf(known));
  process.stdout.write(`${folder}: the longest chain of imports has ${chain.length} files\n`);
  if (chain.length <= files) continue;
  process.stdout.write(`at most ${files} are allowed: ${chain.join(' -> ')}\n`);
  process.exitCode = 1;
}

function importsOf(known: ReadonlySet<string>): (file: string) => readonly string[] {
  return (file) =>
    [...readFileSync(file, 'utf8').matchAll(IMPORT)]
      .map(([, path = '']) => join(file, '..', path))
      .filter((imported) => known.has(imported));
}

function longestChain(
  entry: string,
  imports: (file: string) => readonly string[],
): readonly string[] {
  const chains = new Map<string, readonly string[]>();
  const from = (file: string): readonly string[] => {
    const known = chains.get(file);
    if (known) return known;
    const rest = imports(file)
      .map(from)
      .reduce((one, other) => (other.length > one.length ? other : one), []);
    const chain = [file, ...rest];
    chains.set(file, chain);
    return chain;
  };
  return from(entry);
}
