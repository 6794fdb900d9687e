import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

// `npm run lint:words`: words that must not come back, because readers stumbled over them. docs/glossary.md has the
// words that the project uses instead.

interface Banned {
  readonly pattern: RegExp;
  readonly instead: string;
}

const BANNED: readonly Banned[] = [
  { pattern: /courier/i, instead: 'scheduler, dispatcher' },
  { pattern: /\blanes?\b|\bhungry\b|\brouse/i, instead: 'queue, has due work, notify' },
  { pattern: /\bunrest\b|\bpulse\b/i, instead: 'rebalance, wake loop' },
  { pattern: /\btally\b|\bsettlements?\b/i, instead: 'result batch, result' },
  { pattern: /(?<!in[- ])\bflights?\b|\bflying\b/i, instead: 'in-flight attempt' },
  { pattern: /\bput(?:s|ting)? back\b(?! (?:in)?to stock)/i, instead: 'reschedule, release' },
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\bmeanwhile\b/i, instead: 'during that, in the meantime' },
  { pattern: /\bby now\b/i, instead: 'already' },
  { pattern: /\bwhoever\b/i, instead: 'the caller, the user' },
  { pattern: /\bfor want of\b/i, instead: 'because there is no' },
  {
    pattern: /\b(?:is|are|was|were|be) told\b|\btells? of\b/i,
    instead: 'is notified, is returned, publishes',
  },
  { pattern: /\bunhear\b|\bheard\b(?!_)|\bhears?\b/i, instead: 'apply, receive' },
  { pattern: /\bverdicts?\b/i, instead: 'result' },
  { pattern: /\bfound good\b|\bnames nothing\b/i, instead: 'valid, does not exist' },
  { pattern: /\b(?:is|are|was|were) away\b/i, instead: 'is unavailable' },
  { pattern: /\bhopeless\b/i, instead: 'permanent' },
  { pattern: /\bfor good\b/i, instead: 'permanently' },
  { pattern: /\bon trial\b/i, instead: 'sandbox shop' },
  {
    pattern: /\b(?:part of ours|outages? of (?:ours|our own))\b/i,
    instead: 'database or internal service unavailable',
  },
  { pattern: /\bis the (?:question|answer) of\b/i, instead: 'Request of, Response of' },
  { pattern: /\bits books\b/i, instead: 'records' },
  { pattern: /\bnamed twice\b/i, instead: 'is in the request twice' },
];

/** Names that cannot change: columns, applied migrations, and RPCs and fields of the contract. */
const EXEMPT = [/^docs\/openapi\//, /\/openapi\/released\//, /^proto\/gen\//, /\/migrations\//];

const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', ...process.argv.slice(2)],
  { encoding: 'utf8' },
)
  .split('\n')
  .filter((file) => /\.(?:ts|md|proto|ya?ml|json)$/.test(file) && !file.startsWith('test/'))
  .filter((file) => !file.endsWith('.test.ts') && file !== 'package-lock.json')
  .filter((file) => !EXEMPT.some((pattern) => pattern.test(file)));

let found = 0;
for (const file of files) {
  const lines = readFileSync(file, 'utf8').split('\n');
  for (const [index, line] of lines.entries()) {
    for (const { pattern, instead } of BANNED) {
      const [word] = pattern.exec(line) ?? [];
      if (word === undefined) continue;
      found += 1;
      process.stdout.write(`${file}:${index + 1}: "${word}": say ${instead}\n`);
    }
  }
}
process.stdout.write(`${found} words to replace in ${files.length} files\n`);
process.exitCode = found > 0 ? 1 : 0;
