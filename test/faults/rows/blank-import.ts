import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runNode } from '../../kit/process.ts';
import { openPartnerShop } from '../ledger/partner.ts';
import type { Row } from '../row.ts';

const FILES = [
  { name: 'nothing', text: '' },
  { name: 'blank lines', text: '\n\n\n' },
];
const MESSAGE = 'the file is empty: its first line must name the columns InvoiceNo';

/** Importing an empty file fails with a message that says so. */
export const blankImportRow: Row = {
  name: 'blank-import',
  fault: 'an import of an empty file, and of one of blank lines',
  mustHold: 'exit code 1, and the message of an empty file',
  budgetMs: { short: 60_000, full: 60_000 },
  async run({ system }) {
    const { shopId } = await openPartnerShop(system);
    const [gateway] = system.members('gateway');
    const folder = await mkdtemp(join(tmpdir(), 'rms-faults-import-'));
    try {
      const problems = await Promise.all(
        FILES.map(async ({ name, text }) => {
          const file = join(folder, `${name}.csv`);
          await writeFile(file, text);
          const args = ['gateway/admin/import/main.ts', file, '--shop', String(shopId)];
          const { code, stderr } = await runNode({ args, env: gateway?.process.env ?? {} });
          const isRight = code === 1 && stderr.includes(MESSAGE);
          return isRight ? [] : [`of ${name} ended with ${code}: ${stderr}`];
        }),
      );
      const none = { lost: 0, duplicates: 0, unexplained: 0, doubts: [] };
      const figures = [`${FILES.length} files`];
      const trials = FILES.length;
      return { ...none, trials, inFlight: 0, figures, problems: problems.flat() };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};
