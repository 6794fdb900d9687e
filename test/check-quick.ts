import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// `npm run check:quick`: lint, types, and tests of every file that differs from the last commit, or from the commit in
// `npm run check:quick -- <commit>`. Arguments after the commit are for jest: `… -- HEAD --maxWorkers=1`.

/** Tests in other folders that a change often breaks, usually because a page or a list is out of date. */
const FURTHER: readonly { readonly changed: RegExp; readonly tests: readonly string[] }[] = [
  {
    changed: /^services\/contract\/|^docs\/(?:changelog\.md$|openapi\/)/,
    tests: [
      'services/contract/openapi/changelog-lock.test.ts',
      'services/contract/openapi/document.test.ts',
      'services/contract/openapi/schemas.test.ts',
      'services/contract/examples/examples.test.ts',
      'test/docs/openapi.test.ts',
      'services/contract/topics/topics.test.ts',
    ],
  },
  {
    changed: /^services\/(?:returns\/fields\.ts$|contract\/details\/)/,
    tests: [
      'services/returns/fields.test.ts',
      'services/contract/details/return-details.test.ts',
      'services/returns/store/details-size.test.ts',
      'services/returns/submit/submit.test.ts',
    ],
  },
  {
    changed: /\/migrations\/.*\.sql$|^docs\/privacy\.md$/,
    tests: ['test/docs/id-ranges.test.ts', 'test/docs/privacy.test.ts'],
  },
  {
    changed: /^gateway\/(?:actions|mcp)\/|^docs\/mcp\//,
    tests: [
      'gateway/mcp/catalogue.test.ts',
      'gateway/mcp/docs/docs.test.ts',
      'gateway/mcp/tools.test.ts',
      'gateway/mcp/weight.test.ts',
      'gateway/mcp/clients.test.ts',
      'gateway/doors/doors.test.ts',
      'gateway/portal/access.test.ts',
    ],
  },
  {
    changed: /^services\/contract\/vocabulary\.ts$/,
    tests: [
      'gateway/portal/webhooks.test.ts',
      'services/webhooks/service.test.ts',
      'services/webhooks/fan-out/without-customer.test.ts',
    ],
  },
  {
    changed: /\/config\.ts$|^docs\/configuration\.md$/,
    tests: ['deploy/config-reference.test.ts'],
  },
  {
    changed: /^proto\/rms\//,
    tests: [
      'services/platform/grpc/callers.test.ts',
      'services/returns/tenancy.test.ts',
      'test/docs/idempotency-keys.test.ts',
    ],
  },
];

const git = (...args: string[]) =>
  execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);

const [since = 'HEAD', ...jest] = process.argv.slice(2);
const changed = [
  ...git('diff', '--name-only', '--diff-filter=d', since),
  ...git('ls-files', '--others', '--exclude-standard'),
];
if (changed.length === 0) {
  process.stdout.write(`no file differs from ${since}\n`);
  process.exit();
}
const code = changed.filter((file) => file.endsWith('.ts') && !file.startsWith('proto/gen/'));
const beside = code
  .map((file) => (file.endsWith('.test.ts') ? file : file.replace(/\.ts$/, '.test.ts')))
  // The suites under test/ need brokers, browsers or minutes.
  .filter((file) => existsSync(file) && /^(services|gateway|deploy)\//.test(file));
const further = FURTHER.filter((one) => changed.some((file) => one.changed.test(file)));
const tests = new Set([...beside, ...further.flatMap((one) => one.tests)]);

run('lint', 'biome', ['check', '--no-errors-on-unmatched', ...changed]);
run('words', 'node', ['test/lint/words.ts', ...changed]);
run('import depth', 'node', ['test/lint/import-depth.ts']);
if (changed.some((file) => file.startsWith('proto/rms/'))) {
  run('lint of protos', 'buf', ['lint']);
  run('protos only grow', 'npm', ['run', '--silent', 'breaking']);
}
run('types', 'tsc', [
  '--incremental',
  '--tsBuildInfoFile',
  'node_modules/.cache/quick.tsbuildinfo',
]);
if (tests.size > 0) run('tests', 'npm', ['test', '--', ...tests, ...jest]);
process.stdout.write(
  `\n${changed.length} changed files, ${tests.size} test files: all passed. \`npm run check\` runs the others.\n`,
);

function run(what: string, command: string, args: readonly string[]): void {
  process.stdout.write(`\n== ${what}\n`);
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
