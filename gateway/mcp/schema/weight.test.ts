import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { sampleDelivery, sampleReturn } from '../../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../../test/kit/gateway/mcp.ts';
import { createCatalogue } from '../catalogue.ts';
import { TOOLS } from '../tools.ts';
import { argumentRules } from './json-schema.ts';
import { PAGE_TOKENS_MAX } from './page-weight.ts';

/** An assistant pays for the list of tools in every conversation. Tokens of o200k_base. */
const LIST_TOKENS_MAX = 9_000;

const tokensOf = (value: unknown): number => countTokens(JSON.stringify(value));
const { owner } = createCatalogue();

let bench: McpBench;
let token: string;
beforeAll(async () => {
  bench = await startMcpBench();
  token = (await bench.member('owner')).token;
});
afterAll(() => bench?.stop());

describe('the list of tools', () => {
  test('has at most 9,000 tokens for an owner, with the schemas of the results', async () => {
    const { body } = await bench.rpc(token, 'tools/list');
    expect(body.result.tools).toHaveLength(owner.length);
    const tokens = tokensOf(body.result);
    const byTool = owner.map((tool) => ({ tool: tool.name, tokens: tokensOf(tool) }));
    // A failure shows what each tool costs.
    const heaviest = byTool.sort((a, b) => b.tokens - a.tokens);
    expect({ tokens, heaviest: tokens > LIST_TOKENS_MAX ? heaviest : [] }).toEqual({
      tokens,
      heaviest: [],
    });
  });

  test.each(owner.map((tool) => [tool.name, tool] as const))(
    '%s says each thing once',
    (_, { inputSchema, outputSchema }) => {
      const text = JSON.stringify([inputSchema, outputSchema]);
      expect(text).not.toMatch(/9007199254740991|"x-|"\$schema"/);
      // Some clients read no list of types.
      expect(text).not.toContain('"type":[');
      expect(JSON.stringify(inputSchema)).not.toMatch(/"minLength":1\b|"Identifier"/);
      expect(JSON.stringify(outputSchema)).not.toMatch(
        /"(?:required|pattern|minimum|maximum|maxLength|additionalProperties)":(?!\{"type)/,
      );
    },
  );

  test('an argument has the same schema in every tool', () => {
    const differing = [...argumentsByName()].filter(([, schemas]) => schemas.size > 1);
    expect(
      Object.fromEntries(differing.map(([name, tools]) => [name, [...tools.values()]])),
    ).toEqual(DIFFERENT_BY_DESIGN);
  });
});

/** Arguments with one name and different rules. Each group of tools shares one rule. */
const DIFFERENT_BY_DESIGN = {
  // Different things are counted and listed.
  items: [['create_return'], ['record_dispositions'], ['create_cart']],
  reasons: [['flag_return'], ['unflag_return']],
  // Returns and deliveries have different states.
  states: [['search_returns'], ['preview_webhook_replay', 'start_webhook_replay']],
  // Only one tool lists the long lists of values. The others name it.
  topic: [['create_webhook'], ['update_webhook']],
  trigger: [
    ['create_webhook'],
    [
      'update_webhook',
      'test_webhook',
      'list_webhook_deliveries',
      'preview_webhook_replay',
      'start_webhook_replay',
    ],
  ],
  // A report has the limit of the REST API.
  comment: [['flag_return', 'unflag_return'], ['create_fraud_report']],
};

/** Groups the tools with an argument by its schema without the description and `default`. */
function argumentsByName(): Map<string, Map<string, string[]>> {
  const byName = new Map<string, Map<string, string[]>>();
  for (const { name: tool, input } of TOOLS) {
    for (const [name, schema] of Object.entries(Object(argumentRules(input).properties))) {
      const { description: _, default: __, ...rule }: Record<string, unknown> = Object(schema);
      const groups = byName.get(name) ?? new Map<string, string[]>();
      const key = JSON.stringify(rule, Object.keys(rule).sort());
      groups.set(key, [...(groups.get(key) ?? []), tool]);
      byName.set(name, groups);
    }
  }
  return byName;
}

describe('a page of 50 returns', () => {
  /** Lets the fake service find 50 returns with these lines. */
  function find50(title: string, lines: number): void {
    const line = { ...sampleReturn().lineItems?.[0], title, reason: 'Too small' };
    const one = { ...sampleReturn(), lineItems: Array.from({ length: lines }, () => line) };
    const returns = Array.from({ length: 50 }, (_, at) => ({ ...one, id: BigInt(1_000 + at) }));
    Object.assign(bench.services.returns, {
      searchReturns: () => ({ returns, total: 50, nextCursor: '' }),
    });
  }
  const search = (detail: 'summary' | 'full', limit = 50) =>
    bench.call(token, 'search_returns', { detail, limit });

  test.each([
    ['two lines', 'White hanging heart T-light holder', 2],
    ['long titles', 'Regency cakestand '.repeat(10), 30],
    ['titles in another script', '白い吊り下げハートのティーライトホルダー'.repeat(5), 5],
    ['titles of pictures', '🫖'.repeat(60), 5],
  ])(
    'with %s has at most 8,000 tokens, and says that its rows are shortened',
    async (_, title, lines) => {
      find50(title, lines);
      for (const detail of ['summary', 'full'] as const) {
        const { data } = await search(detail);
        expect(data.returns).toHaveLength(50);
        expect(data.returns[0]).toMatchObject({ id: 1_000, order_name: '#1001', state: 'open' });
        expect(data.returns[0]).not.toHaveProperty('lines');
        expect(data.note).toMatch(/^These .*too long\. For more, request fewer returns with limit/);
        expect(tokensOf(data)).toBeLessThanOrEqual(PAGE_TOKENS_MAX);
      }
      bench.resetServices();
    },
  );

  test('is sent as requested when it is short enough', async () => {
    const few = await bench.call(token, 'search_returns', { detail: 'full' });
    expect(few.data.note).toBeNull();
    expect(few.data.returns[0].lines).toHaveLength(1);
  });
});

describe('a page of 20 deliveries', () => {
  /** Lets the fake service find 20 deliveries with this many attempts. The receiver responded with a whole page. */
  async function attemptsShown(attempts: number, excerpt: string) {
    const one = sampleDelivery();
    const tried = Array.from({ length: attempts }, (_, at) => ({
      ...one.attempts[0],
      number: at + 1,
      status: 500,
      responseExcerpt: excerpt,
    }));
    const deliveries = Array.from({ length: 20 }, () => ({ ...one, attempts: tried }));
    Object.assign(bench.services.webhooks, {
      listDeliveries: () => ({ deliveries, nextCursor: '' }),
    });
    const { data } = await bench.call(token, 'list_webhook_deliveries', { detail: 'full' });
    bench.resetServices();
    expect(data.deliveries).toHaveLength(20);
    expect(data.deliveries[0]).toMatchObject({ attempt_count: attempts, last_status: 500 });
    expect(tokensOf(data)).toBeLessThanOrEqual(PAGE_TOKENS_MAX);
    return [data.note, data.deliveries[0].attempts?.length];
  }

  test('has at most 8,000 tokens, and says that its attempts are left out', async () => {
    expect(await attemptsShown(1, 'busy')).toEqual([null, 1]);
    expect(await attemptsShown(11, 'busy')).toEqual([expect.stringMatching(/^Only the last/), 1]);
    const rows = expect.stringMatching(/^These are summary rows.*deliveries with limit/);
    expect(await attemptsShown(11, '<p>busy</p>'.repeat(93))).toEqual([rows, undefined]);
  });
});
