import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

/** The most that a page may load of scripts, compressed, without charts. Bytes. */
const SCRIPT_MAX = 180 * 1024;

/** A file in Vite's manifest. */
interface Chunk {
  readonly file: string;
  readonly isEntry?: boolean;
  readonly imports?: readonly string[];
  readonly dynamicImports?: readonly string[];
}

let folder: string;
let manifest: Readonly<Record<string, Chunk>>;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'rms-portal-'));
  execFileSync(process.execPath, ['portal/build.ts', folder], {
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  manifest = JSON.parse(readFileSync(join(folder, '.vite/manifest.json'), 'utf8'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The chunks that a browser loads for these: themselves, and what they import at once. */
function loadedFor(names: readonly string[], found = new Set<string>()): Set<string> {
  for (const name of names) {
    if (found.has(name)) continue;
    found.add(name);
    loadedFor(manifest[name]?.imports ?? [], found);
  }
  return found;
}

const sizeOf = (names: Iterable<string>) =>
  [...names].reduce((sum, name) => {
    const file = manifest[name]?.file ?? '';
    return sum + (file.endsWith('.js') ? gzipSync(readFileSync(join(folder, file))).length : 0);
  }, 0);

describe('the built page', () => {
  test('loads at most 180 KiB of scripts for any page', () => {
    const [entry = ''] = Object.keys(manifest).filter((name) => manifest[name]?.isEntry);
    const pages = manifest[entry]?.dynamicImports ?? [];
    expect(pages.length).toBeGreaterThan(10);
    const sizes = pages.map((page) => ({ page, bytes: sizeOf(loadedFor([entry, page])) }));

    expect(sizes.filter(({ bytes }) => bytes > SCRIPT_MAX)).toEqual([]);
  });

  test.each([
    ['charts', 'hour-chart.tsx'],
    ['meanings of words', 'meaning-list.tsx'],
  ])('loads %s only when they are shown', (_name, part) => {
    const [chunk = ''] = Object.keys(manifest).filter((name) => name.includes(part));
    const importers = Object.values(manifest).filter(({ imports = [] }) => imports.includes(chunk));
    expect(manifest[chunk]).toBeDefined();
    expect(importers).toEqual([]);
  });

  test('contains nothing inline, and nothing from another host', () => {
    const html = readFileSync(join(folder, 'index.html'), 'utf8');
    expect(html).not.toMatch(/\bstyle=|<style|\son\w+=|https?:\/\//);
    const scripts = [...html.matchAll(/<script\b([^>]*)>(.*?)<\/script>/gs)];
    expect(scripts).toHaveLength(1);
    expect(scripts[0]?.[2]).toBe('');
    // The gateway replaces the placeholder with the nonce of each response.
    expect(scripts[0]?.[1]).toContain('nonce="__CSP_NONCE__"');
  });
});
