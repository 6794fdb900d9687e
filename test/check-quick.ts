import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// `npm run check:quick`: lint, types, and tests of every file that differs from the last commit, or from the commit in
// `npm run check:quick -- <commit>`. Arguments after the commit are for jest: `… -- HEAD --maxWorkers=1`.

/** Tests in other folders that a change often breaks, usually because a page or a list is out of date. */
const FURTHER: readonly { readonly changed: RegExp; readonly tests: readonly string[] }[] = [
  {
    changed: /^services\/contract\/|^docs\/(?:changelog\.md$|openapi\/)/,
    tests: [
      'services/contract/openapi/document.test.ts',
      'services/contract/examples/examples.test.ts',
      'test/docs/openapi.test.ts',
      'services/contract/topics/topics.test.ts',
    ],
  },
  {
    changed: /^services\/(?:returns\/fields\.ts$|contract\/details\/)/,
    tests: [
      'services/returns/return.test.ts',
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
      'gateway/mcp/schema/weight.test.ts',
      'gateway/mcp/clients.test.ts',
      'gateway/portal/methods.test.ts',
    ],
  },
  {
    changed: /^services\/contract\/vocabulary\.ts$/,
    tests: [
      'gateway/portal/webhooks.test.ts',
      'services/webhooks/service.test.ts',
      'services/webhooks/fan-out/redact.test.ts',
    ],
  },
  {
    changed: /\/config\.ts$|^docs\/configuration\.md$/,
    tests: ['deploy/config-reference.test.ts'],
  },
  {
    changed: /^proto\/rms\//,
    tests: [
      'services/platform/rpc/authorization.test.ts',
      'test/journeys/tenancy.test.ts',
      'test/docs/idempotency-keys.test.ts',
    ],
  },
];

/** Suites that this command never runs, and the changes that they test. */
const SUITES: readonly { readonly changed: RegExp; readonly suite: string }[] = [
  { changed: /^(?:portal|gateway\/(?:portal|oauth|mcp|docs))\//, suite: 'test:mcp' },
  { changed: /^services\/platform\/(?:kafka|bus|consumer|outbox)\//, suite: 'test:kafka' },
  {
    changed: /^deploy\/|^skaffold|Dockerfile|^docs\/(?:deploy|configuration)/,
    suite: 'test:deploy',
  },
  { changed: /^gateway\/(?:http|auth|rest|tenancy)\//, suite: 'test:security' },
  {
    changed:
      /^services\/(?:platform\/(?:outbox|leases|postgres)|webhooks\/delivery|returns\/processing)\//,
    suite: 'test:faults',
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
const code = changed.filter((file) => /\.tsx?$/.test(file) && !file.startsWith('proto/gen/'));
const testOf = (file: string) =>
  file.endsWith('.test.ts') ? file : file.replace(/\.tsx?$/, '.test.ts');
const hasTest = (file: string) => existsSync(testOf(file)) && !testOf(file).startsWith('test/');
// The suites under test/ need brokers, browsers or minutes.
const beside = code.filter(hasTest).map(testOf);
const ofThePage = code.some((file) => file.startsWith('portal/')) ? ['portal/'] : [];
const further = FURTHER.filter((one) => changed.some((file) => one.changed.test(file)));
const tests = new Set([...beside, ...ofThePage, ...further.flatMap((one) => one.tests)]);

run('lint', 'biome', ['check', '--no-errors-on-unmatched', ...changed]);
if (changed.some((file) => file.startsWith('proto/rms/'))) {
  run('lint of protos', 'buf', ['lint']);
  run('protos only grow', 'npm', ['run', '--silent', 'breaking']);
}
run('types', 'tsc', [
  '--incremental',
  '--tsBuildInfoFile',
  'node_modules/.cache/quick.tsbuildinfo',
]);
if (ofThePage.length > 0) run('types of the page', 'tsc', ['-p', 'portal']);
if (tests.size > 0) run('tests', 'npm', ['test', '--', ...tests, ...jest]);

const untested = code.filter((file) => !hasTest(file) && !file.startsWith('portal/'));
const suites = SUITES.filter((one) => changed.some((file) => one.changed.test(file)));
process.stdout.write(
  [
    '',
    `${changed.length} changed files; passed: ${[...tests].join(', ') || 'lint and types only'}`,
    ...(untested.length > 0 ? [`no test of the same name: ${untested.join(', ')}`] : []),
    `not run: npm test (the rest)${suites.map((one) => `, npm run ${one.suite}`).join('')}`,
    '',
  ].join('\n'),
);

function run(what: string, command: string, args: readonly string[]): void {
  process.stdout.write(`\n== ${what}\n`);
  const { status } = spawnSync(command, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
