import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { isObject, type JsonObject } from '../../services/contract/validate/json-object.ts';

// What the OpenAPI documents must say, so that they teach.

const FOLDER = new URL('../../docs/openapi/', import.meta.url);
const NAMES = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));

test('there are documents of two versions, of the next one and of commerce endpoints', () => {
  expect(NAMES.length).toBeGreaterThanOrEqual(4);
});

describe.each(NAMES)('docs/openapi/%s', (name) => {
  const document = read(name);

  test('has a sentence for every property', () => {
    expect(undescribed(document, 'properties')).toEqual([]);
  });

  test('has a sentence for every parameter and every header', () => {
    expect(undescribed(document, 'headers')).toEqual([]);
    expect(undescribed(document, 'parameters')).toEqual([]);
  });

  test('has an example in every request and every response, valid for its schema', () => {
    const ajv = new Ajv2020.default({ strict: false });
    addFormats.default(ajv);
    ajv.addSchema({ ...document, $id: 'document' });
    const all = mediaTypes(document);
    expect(all.length).toBeGreaterThan(6);
    for (const [path, media] of all) {
      const validate = ajv.compile({ $ref: `document#${pointerOf([...path, 'schema'])}` });
      const values = examplesOf(media);
      const faults = values.map((value) =>
        validate(value) ? '' : ajv.errorsText(validate.errors),
      );
      expect([path, values.length > 0, faults]).toEqual([path, true, values.map(() => '')]);
    }
  });
});

/** The example values of a media type. */
function examplesOf(media: JsonObject): unknown[] {
  if ('example' in media) return [media.example];
  const named = isObject(media.examples) ? Object.values(media.examples) : [];
  return named.map((one) => (isObject(one) ? one.value : undefined));
}

/** Each media type of a request or a response, by the keys that lead to it. */
function mediaTypes(value: unknown, path: readonly string[] = []): [string[], JsonObject][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (DATA.has(key) || key === 'schemas') return [];
    const at = [...path, key];
    if (path.at(-1) === 'content' && isObject(inner)) return [[at, inner]];
    return mediaTypes(inner, at);
  });
}

/** A JSON pointer in the fragment of a URI (RFC 6901, section 6). */
function pointerOf(path: readonly string[]): string {
  const escaped = path.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1'));
  return escaped.map((part) => `/${encodeURIComponent(part)}`).join('');
}

function read(name: string): JsonObject {
  return JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8'));
}

/** Values that are data, in which names mean nothing. */
const DATA = new Set(['example', 'examples', 'value', 'default', 'const', 'enum']);

/** The path of each member of an object or list `of`, at any depth, that has no description. */
function undescribed(value: unknown, of: string, path: readonly string[] = []): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const isNamed = path.at(-1) === 'properties';
    if (!isNamed && DATA.has(key)) return [];
    const at = [...path, key];
    const members = key === of && !isNamed ? Object.entries(inner) : [];
    const silent = members.filter(([, member]) => !isDescribed(member));
    return [...silent.map(([member]) => [...at, member].join(' ')), ...undescribed(inner, of, at)];
  });
}

/** A header or a parameter may be a reference; a property needs its own description. */
function isDescribed(member: unknown): boolean {
  if (!isObject(member)) return false;
  if (typeof member.description === 'string' && member.description.length > 3) return true;
  return typeof member.$ref === 'string' && !member.$ref.startsWith('#/components/schemas/');
}
