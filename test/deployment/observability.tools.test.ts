import { globSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { renderOverlay } from '../../deploy/check/render.ts';

const rule = z.object({
  alert: z.string(),
  expr: z.string(),
  for: z.string().optional(),
  labels: z.object({ severity: z.enum(['critical', 'warning', 'info']) }),
  annotations: z.object({ summary: z.string().min(10), runbook: z.string() }),
});
const ruleResource = z.object({
  kind: z.literal('PrometheusRule'),
  spec: z.object({ groups: z.array(z.object({ name: z.string(), rules: z.array(rule) })) }),
});
const dashboardConfig = z.object({ data: z.object({ 'dashboard.json': z.string() }) });
const dashboard = z.object({
  panels: z.array(z.object({ targets: z.array(z.object({ expr: z.string() })) })),
});

const objects = renderOverlay('deploy/observability');
const find = <T>(schema: z.ZodType<T>): T => {
  const found = objects.map((one) => schema.safeParse(one)).find(({ success }) => success);
  return schema.parse(found?.data);
};
const rules = find(ruleResource).spec.groups.flatMap((group) => group.rules);
const panels = dashboard.parse(JSON.parse(find(dashboardConfig).data['dashboard.json'])).panels;
const runbook = readFileSync('docs/runbook.md', 'utf8');

/** Metrics of kube-state-metrics and of the kubelet. */
const OF_THE_CLUSTER = /^(kube|kubelet)_/;

/** The metrics in an expression: words with an underscore that are not functions, labels or keywords. */
function metricsIn(expr: string): string[] {
  const bare = expr
    .replaceAll(/"[^"]*"/g, '')
    .replaceAll(/\{[^}]*\}/g, '')
    .replaceAll(/\b(by|without|on|ignoring) \([^)]*\)/g, '');
  const words = bare.match(/\b[a-z]+(_[a-z0-9]+)+\b(?!\()/g) ?? [];
  return words.filter((word) => !OF_THE_CLUSTER.test(word));
}

/** The names that the code gives to the meter, as Prometheus writes them, without the suffixes of its exporter. */
function namesInCode(): ReadonlySet<string> {
  const files = globSync(['gateway/**/*.ts', 'services/**/*.ts']).filter(
    (file) => !file.endsWith('.test.ts'),
  );
  const texts = files.flatMap(
    (file) => readFileSync(file, 'utf8').match(/['`][a-z]+[._][a-z._${}]+['`]/g) ?? [],
  );
  // The RPC metrics have one name for the client and one for the server.
  const names = texts.flatMap((text) =>
    ['client', 'server'].map((side) => text.replace(/\$\{side\}/, side)),
  );
  return new Set(names.map((name) => stemOf(name.slice(1, -1).replaceAll('.', '_'))));
}

function stemOf(metric: string): string {
  return metric.replace(/_(bucket|sum|count)$/, '').replace(/_total$/, '');
}

test('each alert has a section in the runbook and links to it, and each section has an alert', () => {
  const sections = [...runbook.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  expect(sections).toEqual(rules.map(({ alert }) => alert));
  for (const { alert, labels, annotations } of rules) {
    expect(annotations.runbook).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
    expect(runbook).toContain(`### ${alert}\n\n**${labels.severity}.** `);
  }
});

test('each metric of a rule or a panel is in the list of metrics and in the code', () => {
  const expressions = [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];
  const metrics = [...new Set(expressions.flatMap(metricsIn))];
  expect(metrics.length).toBeGreaterThan(30);
  const listed = metrics.filter(
    (metric) => !runbook.includes(`\`${metric.replace(/_(bucket|sum|count)$/, '')}\``),
  );
  expect(listed).toEqual([]);
  const code = namesInCode();
  expect(metrics.filter((metric) => !code.has(stemOf(metric)))).toEqual([]);
});

test('each rule that fires at once sees the first event of a new series', () => {
  const atOnce = rules.filter(
    (one) => one.for === undefined && /\b(rate|increase)\(/.test(one.expr),
  );
  expect(atOnce.length).toBeGreaterThan(10);
  const blind = atOnce.filter(({ expr }) => !/ unless .+ offset /.test(expr));
  expect(blind.map(({ alert }) => alert)).toEqual([]);
});

test('each aggregation keeps the namespace, so that no installation hides the failure of another', () => {
  const merging = rules.filter(({ expr }) =>
    /\b(sum|min|max|avg|count)\b(?! by \(namespace\b)/.test(expr),
  );
  expect(merging.map(({ alert }) => alert)).toEqual([]);
});

test('each expression has balanced parentheses and braces', () => {
  for (const { expr } of rules) {
    for (const [open, close] of ['()', '{}', '[]'].map((pair) => pair.split(''))) {
      expect(expr.split(open ?? '').length).toBe(expr.split(close ?? '').length);
    }
  }
});

test('pods are scraped by the label and the port of the base', () => {
  const monitor = objects.find(({ kind }) => kind === 'PodMonitor');
  expect(monitor).toMatchObject({
    spec: {
      selector: { matchLabels: { 'app.kubernetes.io/part-of': 'rms' } },
      podMetricsEndpoints: [{ port: 'metrics' }],
    },
  });
});
