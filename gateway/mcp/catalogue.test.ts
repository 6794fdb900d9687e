import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { hasRight } from '../actions/rights.ts';
import { ROLES } from '../tenancy/permissions.ts';
import { createCatalogue } from './catalogue.ts';
import { PROMPTS, promptsFor } from './prompts.ts';
import { argumentRules } from './schema/json-schema.ts';
import { TOOLS, toolNamed } from './tools.ts';

const catalogue = createCatalogue();
const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });

describe('the catalogue of tools', () => {
  test.each(ROLES)('lists the permitted tools of each role: %s', (role) => {
    const permitted = TOOLS.filter(({ right }) => hasRight(role, right));
    expect(catalogue[role].map(nameOf)).toEqual(permitted.map(nameOf));
  });

  test.each(ROLES)('lists only tools that only read when the user allowed no more: %s', (role) => {
    const reading = new Set(TOOLS.filter((tool) => tool.hints.readOnly.is).map(nameOf));
    expect(catalogue.readOnly[role].map(nameOf)).toEqual(
      catalogue[role].map(nameOf).filter((name) => reading.has(name)),
    );
  });

  test('has no name twice, and finds no other', () => {
    expect(new Set(TOOLS.map(nameOf)).size).toBe(TOOLS.length);
    for (const tool of TOOLS) expect(toolNamed(tool.name)).toBe(tool);
    expect(toolNamed('toString')).toBeUndefined();
    expect(toolNamed('__proto__')).toBeUndefined();
  });

  test.each(TOOLS)(
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
  test.each(TOOLS)('every argument of $name is bounded, and others are rejected', (tool) => {
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
        const named = TOOLS.map(nameOf).filter((name) => prompt.text({}).includes(`${name} `));
        expect(catalogue[role].map(nameOf)).toEqual(expect.arrayContaining(named));
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
