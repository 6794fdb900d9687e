import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// `npm run check:quick`: lint, types, and the tests beside every file that differs from the last commit.

const git = (...args: string[]) =>
  execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);

const changed = [
  ...git('diff', '--name-only', '--diff-filter=d', 'HEAD'),
  ...git('ls-files', '--others', '--exclude-standard'),
];
const code = changed.filter((file) => file.endsWith('.ts') && !file.startsWith('proto/gen/'));
const tests = new Set(
  code
    .map((file) => (file.endsWith('.test.ts') ? file : file.replace(/\.ts$/, '.test.ts')))
    // The suites under test/ need brokers, browsers or minutes.
    .filter((file) => existsSync(file) && /^(services|gateway|deploy)\//.test(file)),
);

run('lint', 'biome', ['check', '--no-errors-on-unmatched', ...changed]);
run('types', 'tsc', [
  '--incremental',
  '--tsBuildInfoFile',
  'node_modules/.cache/quick.tsbuildinfo',
]);
if (tests.size > 0) run('tests', 'npm', ['test', '--', ...tests]);
process.stdout.write(`\n${changed.length} changed files, ${tests.size} test files: all passed\n`);

function run(what: string, command: string, args: readonly string[]): void {
  process.stdout.write(`\n== ${what}\n`);
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
