import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { ACTION_PERMISSIONS, permissionsFor } from '../actions/permissions.ts';
import { permits, ROLES, type Role } from '../tenancy/permissions.ts';
import { createCatalogue } from './catalogue.ts';
import { argumentRules } from './json-schema.ts';
import { PROMPTS, promptsFor } from './prompts.ts';
import { TOOLS, toolNamed } from './tools.ts';

const tools = Object.values(TOOLS);
const catalogue = createCatalogue();
const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });

/** The tools of each role. They are listed here so that a change of the permission table fails this test. */
const LISTED: Readonly<Record<Role, readonly string[]>> = {
  owner: Object.keys(TOOLS),
  admin: Object.keys(TOOLS),
  returns_agent: [
    'get_shop_context',
    'search_returns',
    'get_return',
    'get_return_timeline',
    'get_returns_summary',
    'process_return',
    'add_return_note',
    'flag_return',
    'unflag_return',
    'cancel_return',
    'record_dispositions',
    'list_destinations',
    'list_fraud_categories',
    'create_fraud_report',
    'get_fraud_report',
    'create_cart',
    'list_assistants',
    'disconnect_assistant',
  ],
  warehouse: [
    'get_shop_context',
    'search_returns',
    'get_return',
    'get_return_timeline',
    'record_dispositions',
    'list_destinations',
    'list_assistants',
    'disconnect_assistant',
  ],
  analyst: [
    'get_shop_context',
    'search_returns',
    'get_return',
    'get_return_timeline',
    'get_returns_summary',
    'get_fraud_report',
    'list_assistants',
    'disconnect_assistant',
  ],
  developer: [
    'get_shop_context',
    'search_returns',
    'get_return',
    'get_return_timeline',
    'list_webhooks',
    'create_webhook',
    'update_webhook',
    'test_webhook',
    'rotate_webhook_secret',
    'list_webhook_deliveries',
    'replay_webhook_delivery',
    'preview_webhook_replay',
    'start_webhook_replay',
    'list_webhook_replays',
    'cancel_webhook_replay',
    'list_assistants',
    'disconnect_assistant',
  ],
};

describe('the catalogue of tools', () => {
  test.each(ROLES)('lists the permitted tools of each role: %s', (role) => {
    expect(catalogue[role].map(({ name }) => name)).toEqual(LISTED[role]);
    for (const name of Object.keys(ACTION_PERMISSIONS)) {
      const anyOf = permissionsFor(name as keyof typeof ACTION_PERMISSIONS);
      const isAllowed = anyOf.length === 0 || permits(role, anyOf);
      expect(LISTED[role].includes(name)).toBe(isAllowed);
    }
  });

  test.each(ROLES)('lists only tools that only read when the user allowed no more: %s', (role) => {
    const reading = new Set<string>(tools.filter((tool) => tool.hints.readOnly.is).map(nameOf));
    expect(catalogue.readOnly[role].map(nameOf)).toEqual(
      LISTED[role].filter((name) => reading.has(name)),
    );
  });

  test('a tool also has the names of earlier releases, which are not listed', () => {
    expect(toolNamed('list_connected_assistants')).toBe(TOOLS.list_assistants);
    expect(Object.keys(TOOLS)).not.toContain('list_connected_assistants');
  });

  test('every tool is registered under its own name', () => {
    for (const [name, tool] of Object.entries(TOOLS)) expect(tool.name).toBe(name);
    expect(toolNamed('toString')).toBeUndefined();
    expect(toolNamed('__proto__')).toBeUndefined();
  });

  test.each(tools)(
    '$name has a description of when to use it, and reasons for its hints',
    (tool) => {
      expect(tool.description).toMatch(/^Use this when /);
      expect(tool.description.length).toBeLessThan(600);
      for (const hint of Object.values(tool.hints)) expect(hint.because).toMatch(/^[A-Z].+\.$/);
      const { readOnly, destructive } = tool.hints;
      expect(readOnly.is && destructive.is).toBe(false);
      const writes = 'idempotency_key' in tool.input.shape;
      expect(writes).toBe(!readOnly.is);
    },
  );

  test.each(catalogue.owner.map((tool) => [tool.name, tool] as const))(
    '%s has narrow schemas and all four hints',
    (_, tool) => {
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(tool.outputSchema).toMatchObject({ type: 'object' });
      expect(tool.annotations).toEqual({
        title: toolNamed(tool.name)?.title,
        readOnlyHint: expect.any(Boolean),
        destructiveHint: expect.any(Boolean),
        idempotentHint: expect.any(Boolean),
        openWorldHint: expect.any(Boolean),
      });
      for (const schema of [tool.inputSchema, tool.outputSchema]) {
        expect(() => ajv.compile(Object(schema))).not.toThrow();
        expect(JSON.stringify(schema)).not.toMatch(/"\$ref"|x-service/);
      }
    },
  );

  // The list leaves out rules that assistants follow without reading them. The tool has them all.
  test.each(tools)('every argument of $name is bounded, and others are rejected', (tool) => {
    const rules = argumentRules(tool.input);
    expect(unboundedPaths(rules)).toEqual([]);
    expect(openPaths(rules)).toEqual([]);
    const colour = expect.stringMatching(/^colour is not an argument of this tool/);
    expect(tool.prepare({ colour: 1 })).toMatchObject({
      ok: false,
      problems: expect.arrayContaining([colour]),
    });
  });

  test('the prompts of each role use only tools of that role', () => {
    expect(PROMPTS).toHaveLength(3);
    for (const role of ROLES) {
      for (const prompt of promptsFor(role)) {
        const named = Object.keys(TOOLS).filter((name) => prompt.text({}).includes(`${name} `));
        expect(LISTED[role]).toEqual(expect.arrayContaining(named));
      }
    }
  });

  test('the prompt for the upgrade says who sets the payload version', () => {
    const texts = promptsFor('developer').map((prompt) => prompt.text({}));
    expect(texts.join('\n')).toContain(
      'developer.manage sets the payload version in the portal, under Payload version',
    );
  });
});

const nameOf = ({ name }: { readonly name: string }): string => name;

type Schema = Readonly<Record<string, unknown>>;

/** The paths of texts and lists without a maximum length. */
function unboundedPaths(schema: Schema, path = ''): string[] {
  const paths: string[] = [];
  const isFree = !('enum' in schema) && !('format' in schema) && !('pattern' in schema);
  if (schema.type === 'string' && isFree && !('maxLength' in schema)) paths.push(path);
  if (schema.type === 'array' && !('maxItems' in schema)) paths.push(path);
  if (schema.type === 'array') paths.push(...unboundedPaths(schema.items as Schema, `${path}[]`));
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  for (const [name, inner] of Object.entries(properties)) {
    paths.push(...unboundedPaths(inner, `${path}.${name}`));
  }
  return paths;
}

/** The paths of objects with named fields that do not reject other fields. */
function openPaths(schema: Schema, path = ''): string[] {
  const paths = 'properties' in schema && schema.additionalProperties !== false ? [path] : [];
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  if (schema.type === 'array') paths.push(...openPaths(schema.items as Schema, `${path}[]`));
  for (const [name, inner] of Object.entries(properties)) {
    paths.push(...openPaths(inner, `${path}.${name}`));
  }
  return paths;
}
