import fc from 'fast-check';

type Schema = Readonly<Record<string, unknown>>;

/** Values that break parsers: of every type, at the edges, hostile. */
const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e308,
    2 ** 53,
    '',
    ' ',
    '\u0000',
    '\ud800',
    'é'.repeat(300),
    [],
    {},
    [[]],
    '2026-02-30T00:00:00Z',
    '__proto__',
    "'; drop table returns; --",
  ),
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

/** Values that are mostly valid by the schema. */
export function valuesFor(
  schema: Schema,
  document: Schema,
  ids: readonly number[],
): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 8, arbitrary: validValues(schema, document, ids) },
    { weight: 1, arbitrary: odd },
  );
}

function validValues(
  schema: Schema,
  document: Schema,
  ids: readonly number[],
): fc.Arbitrary<unknown> {
  const resolved = dereference(schema, document);
  const choices = (resolved.anyOf ?? resolved.oneOf) as readonly Schema[] | undefined;
  if (choices) return fc.oneof(...choices.map((choice) => valuesFor(choice, document, ids)));
  if (Array.isArray(resolved.enum)) return fc.constantFrom<unknown>(...resolved.enum);
  if ('const' in resolved) return fc.constant(resolved.const);
  const types = [resolved.type].flat();
  return fc.oneof(...types.map((type) => ofType(String(type), resolved, { document, ids })));
}

function ofType(
  type: string,
  schema: Schema,
  o: { readonly document: Schema; readonly ids: readonly number[] },
): fc.Arbitrary<unknown> {
  switch (type) {
    case 'object': {
      const properties = (schema.properties ?? {}) as Record<string, Schema>;
      const fields = Object.entries(properties).map(([name, property]) => [
        name,
        valuesFor(property, o.document, o.ids),
      ]);
      const known: fc.Arbitrary<object> = fc.record(
        Object.fromEntries(fields) as Record<string, fc.Arbitrary<unknown>>,
        {
          requiredKeys: (schema.required ?? []) as string[],
        },
      );
      const more = fc.dictionary(fc.string({ maxLength: 8 }), odd, { maxKeys: 2 });
      return fc.tuple(known, more).map(([one, other]) => ({ ...other, ...one }));
    }
    case 'array':
      return fc.array(valuesFor((schema.items ?? {}) as Schema, o.document, o.ids), {
        maxLength: 4,
      });
    case 'integer':
      return fc.oneof(fc.constantFrom(...o.ids), fc.maxSafeInteger());
    case 'number':
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'string':
      return fc.oneof(
        fc.string({ unit: 'grapheme', maxLength: 60 }),
        fc.constantFrom(
          'https://example.com/hook',
          '2026-11-20T10:00:00Z',
          '2026-11-20t10:00:00.5+02:00',
          'aGVsbG8=',
          'GB',
        ),
      );
    default:
      return odd;
  }
}

/** The schema or other part of a document that `$ref` names. */
export function dereference(schema: Schema, document: Schema): Schema {
  if (typeof schema.$ref !== 'string') return schema;
  let target: unknown = document;
  for (const part of schema.$ref.slice(2).split('/')) target = (target as Schema)[part];
  return target as Schema;
}

/** The names of all properties of a schema, at any depth. */
export function propertyNames(schema: unknown, document: Schema): string[] {
  const names = new Set<string>();
  const seen = new Set<unknown>();
  const collect = (part: unknown): void => {
    if (typeof part !== 'object' || part === null || seen.has(part)) return;
    seen.add(part);
    const resolved = dereference(part as Schema, document);
    for (const name of Object.keys(Object(resolved.properties))) names.add(name);
    for (const inner of Object.values(resolved)) collect(inner);
  };
  collect(schema);
  return [...names];
}

/** Bytes that are not JSON, or JSON of the wrong type. */
export const rawBodies: fc.Arbitrary<string> = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.json({ maxDepth: 4 }),
  fc.constantFrom(
    '',
    'null',
    '[]',
    '"text"',
    '{',
    '{"a":1,"a":2}',
    `${'['.repeat(40)}${']'.repeat(40)}`,
    `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`,
  ),
);
