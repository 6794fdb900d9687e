import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

/** Number of requirements of levels 1 and 2 in each chapter of ASVS 5.0.0. */
const REQUIREMENTS = [27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7];

/** A file; of a test also the title: `path: title`. */
type Proofs = string | readonly string[];

interface Proven {
  /** The ways in, with the first parts of their paths. */
  readonly doors: Record<string, { paths: string[]; without?: Record<string, string> }>;
  /** The beginnings of the ids of the requirements of a kind. */
  readonly kinds: Record<string, string[]>;
  /** By doors, such as `MCP, portal`, or by what the proof is about. */
  readonly met: Record<string, Proofs | Record<string, Proofs>>;
}
const { doors, kinds, met } = JSON.parse(readFileSync('docs/security/asvs.json', 'utf8')) as Proven;

/** The other sections of the page, and the ids in their rows or entries. */
const page = readFileSync('docs/security/asvs.md', 'utf8');
const idsIn = (heading: string, row: RegExp) => {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(row)].flatMap(([, ids = '']) => idsOf(ids));
};
const unmet = idsIn('Not met', /^\| (V[^|]+) \| [12] \| [^|]+ \| [^|]+ \|$/gm);
const inapplicable = idsIn('Not applicable', /^- .+: (V\d[^:\n]+)$/gm);

/** The requirements that are met, with what shows each, by label. */
const rows = Object.entries(met).flatMap(([ids, row]) => {
  const labelled = typeof row === 'string' || Array.isArray(row) ? { '': row } : row;
  const proofs = Object.entries(labelled).map(([label, one]) => ({ label, all: [one].flat() }));
  return idsOf(ids).map((id) => ({ id, proofs }));
});

describe('the page about ASVS', () => {
  test('lists every requirement of levels 1 and 2 once', () => {
    const all = [...unmet, ...inapplicable, ...rows.map(({ id }) => id)];
    const chapters = REQUIREMENTS.map(
      (_count, index) => all.filter((id) => id.startsWith(`V${index + 1}.`)).length,
    );
    expect(chapters).toEqual(REQUIREMENTS);
    expect(new Set(all).size).toBe(all.length);
  });

  test('names for each requirement that is met an existing file, and of a test its title', () => {
    const proofs = rows.flatMap(({ id, proofs: of }) => of.map(({ all }) => [id, all] as const));
    expect(proofs.filter(([, all]) => all.length === 0 || !all.every(isThere))).toEqual([]);
  });

  test('names a test for each door in each requirement about sessions, sign-ins, grants, limits or audit', () => {
    const missing = Object.entries(kinds).flatMap(([kind, prefixes]) =>
      prefixes.flatMap((prefix) => {
        const of = rows.filter(({ id }) => `${id}.`.startsWith(`${prefix}.`));
        if (of.length === 0) return [`no requirement ${prefix}`];
        return of.flatMap(({ id, proofs }) =>
          Object.entries(doors)
            .filter(([, { without }]) => without?.[kind] === undefined)
            .filter(([door]) => !proofs.some(({ label, all }) => isTest(label, door, all)))
            .map(([door]) => `${id} (${kind}) has no test for ${door}`),
        );
      }),
    );
    expect(missing).toEqual([]);
  });

  test('knows the door of every path of the gateway', () => {
    const sources = readdirSync('gateway', { recursive: true, encoding: 'utf8' })
      .filter((path) => /^(?!admin|rest).*(?<!\.test)\.ts$/.test(path))
      .map((path) => readFileSync(`gateway/${path}`, 'utf8'));
    const paths = sources.flatMap((source) =>
      [...source.matchAll(/['"`]\/(\.?[a-z][\w-]*)(?=[/'"`?])/g)].map(([, first]) => first),
    );
    const known = Object.values(doors).flatMap(({ paths: of }) => of);
    expect([...new Set(paths)].toSorted()).toEqual(known.toSorted());
  });

  test('at least 95 % of the applicable requirements are met', () => {
    expect(rows.length / (rows.length + unmet.length)).toBeGreaterThanOrEqual(0.95);
  });
});

/** The ids of `V1.1.1, V4.4.1 to V4.4.4`. */
function idsOf(text: string): string[] {
  return text.split(', ').flatMap((range) => {
    const [, prefix = '', first, last = first] =
      /^(V\d+\.\d+\.)(\d+)(?: to \1(\d+))?$/.exec(range) ?? [];
    const count = Number(last) - Number(first) + 1;
    return Array.from({ length: count }, (_, index) => `${prefix}${Number(first) + index}`);
  });
}

/** Whether the file exists, and has a test or a group of tests with the title. */
function isThere(proof: string): boolean {
  const [, path = '', title] = /^(\S+?)(?:: (.*))?$/s.exec(proof) ?? [];
  if (!existsSync(path) || path.endsWith('.test.ts') !== (title !== undefined)) return false;
  const source = title === undefined ? '' : readFileSync(path, 'utf8');
  return title === undefined || [`'`, `"`, '`'].some((q) => source.includes(`${q}${title}${q},`));
}

function isTest(label: string, door: string, all: readonly string[]): boolean {
  return label.split(', ').includes(door) && all.some((proof) => proof.includes('.test.ts: '));
}
