import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { sharesOf } from './background-load.ts';
import { machineLines } from './machine.ts';
import { startPlatform } from './platform.ts';
import { failureOf, mayBePublished, printRow, type Result, summarise } from './report.ts';
import type { Bench, Row } from './row.ts';
import { FIRST_FREE_SHOP } from './shop.ts';
import { writeDocs } from './write-docs.ts';

export interface RunOptions {
  readonly rows: readonly Row[];
  readonly quick: boolean;
  readonly writeDocs: boolean;
  /** A file for the figures as JSON. */
  readonly json?: string;
  /** A folder with programs of the row `peers`. */
  readonly peerBin?: string;
}

/** Runs rows one after the other on one platform, and prints their figures. */
export async function runRows(o: RunOptions): Promise<Result[]> {
  const platform = await startPlatform();
  const { rows } = await platform.admin.query('show server_version');
  const postgresVersion = String(rows[0]?.server_version);
  let lastShop = FIRST_FREE_SHOP;
  const bench: Bench = {
    quick: o.quick,
    platform,
    ...(o.peerBin !== undefined && { peerBin: resolve(o.peerBin) }),
    measured: {},
    note: (text) => void process.stdout.write(`  ${text}\n`),
    newShops(count) {
      const first = lastShop + 1n;
      lastShop += BigInt(count);
      return Array.from({ length: count }, (_, at) => first + BigInt(at));
    },
  };
  const results: Result[] = [];
  try {
    for (const row of o.rows) {
      process.stdout.write(`\n${row.name}: ${row.about}\n`);
      const result = await runRow(row, bench);
      results.push(result);
      printRow(result);
      // After each row, so that an interrupted run keeps its measurements.
      if (o.writeDocs) await write(results, postgresVersion);
      if (o.json) await writeFile(o.json, jsonOf(results));
    }
  } finally {
    await platform.stop();
  }
  process.stdout.write(`\n${summarise(results)}\n`);
  return results;
}

/** Runs a row. Without slices of its own, its background load is measured as a whole. */
async function runRow(row: Row, bench: Bench): Promise<Result> {
  const { shares } = bench.platform;
  shares.take();
  const endRow = shares.begin();
  // A failed row does not prevent the others from running.
  const figures = await row.run(bench).catch((error: unknown) => [failureOf(error)]);
  const slices = shares.take();
  endRow();
  const whole = shares.take();
  return { row, figures, shares: sharesOf(slices.length > 0 ? slices : whole) };
}

async function write(results: readonly Result[], postgresVersion: string): Promise<void> {
  // Keeps the figures of an earlier run if no row may be published.
  if (!results.some(mayBePublished)) return;
  const command = ['npm run bench --', ...process.argv.slice(2)].join(' ');
  await writeDocs({ results, machine: await machineLines(postgresVersion), command });
}

function jsonOf(results: readonly Result[]): string {
  const rows = results.map(({ row, figures, shares }) => ({ row: row.name, figures, shares }));
  return `${JSON.stringify(rows, null, 2)}\n`;
}
