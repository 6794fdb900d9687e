import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';

/** Number of requirements of levels 1 and 2 in each chapter of ASVS 5.0.0. */
const REQUIREMENTS = [27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7];

interface Row {
  readonly id: string;
  readonly state: string;
  readonly proof: string;
}

/** The section of each state, and the parts of its rows or entries. */
const ROWS: readonly (readonly [state: string, heading: string, row: RegExp])[] = [
  ['no', 'Not met', /^\| (?<ids>V[^|]+) \| [12] \| [^|]+ \| (?<proof>[^|]+) \|$/gm],
  ['n/a', 'Not applicable', /^- (?<proof>.+): (?<ids>V\d[^:\n]+)$/gm],
  ['met', 'Met', /^- (?<ids>V[^:\n]+): (?<proof>.+)$/gm],
];

const page = readFileSync('docs/security/asvs.md', 'utf8').replaceAll('\n  ', ' ');
const sections = page.split(/^## /m).slice(1);
const rows: readonly Row[] = ROWS.flatMap(([state, heading, row]) => {
  const section = sections.find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(row)].flatMap(({ groups: { ids = '', proof = '' } = {} }) =>
    ids.split(', ').flatMap((range) => idsOf(range).map((id) => ({ id, state, proof }))),
  );
});

describe('the page about ASVS', () => {
  test('lists every requirement of levels 1 and 2 once', () => {
    const chapters = REQUIREMENTS.map(
      (_count, index) => rows.filter(({ id }) => id.startsWith(`V${index + 1}.`)).length,
    );
    expect(chapters).toEqual(REQUIREMENTS);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
  });

  test('names an existing file for each requirement that is met', () => {
    const unproven = rows.filter(({ state, proof }) => {
      const named = [...proof.matchAll(/`([\w./-]+\/[\w./-]+|[A-Z]+\.md|[\w.]+\.json)`/g)];
      const missing = named.filter(([, path = '']) => !existsSync(path));
      return missing.length > 0 || (state === 'met' && named.length === 0 && !isPlain(proof));
    });
    expect(unproven).toEqual([]);
  });

  test('at least 95 % of the applicable requirements are met', () => {
    const applying = rows.filter(({ state }) => state !== 'n/a');
    const met = applying.filter(({ state }) => state === 'met');
    expect(sections.length).toBe(ROWS.length);
    expect(met.length / applying.length).toBeGreaterThanOrEqual(0.95);
  });
});

/** The ids of `V4.4.1 to V4.4.4`, or the one id. */
function idsOf(range: string): string[] {
  const [, prefix = '', first, last = first] =
    /^(V\d+\.\d+\.)(\d+)(?: to \1(\d+))?$/.exec(range) ?? [];
  const count = Number(last) - Number(first) + 1;
  return Array.from({ length: count }, (_, index) => `${prefix}${Number(first) + index}`);
}

/** A proof that no single file could show. */
function isPlain(proof: string): boolean {
  return ['JavaScript; no native code of our own', '`npm run sbom`, run by `.ci/run`'].includes(
    proof,
  );
}
