import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Command, InvalidArgumentError } from 'commander';
import { machineLines } from '../machine.ts';
import { hasFailed, mayBePublished } from '../report.ts';
import { runRows } from '../run-rows.ts';
import { betweenMarks } from '../write-docs.ts';
import {
  type Coefficients,
  coefficients,
  type Demand,
  planFor,
  pricePerMillion,
} from './capacity.ts';
import { CAPACITY_ROWS, checksFrom, checkTable, coefficientsFrom } from './capacity-measured.ts';

const FILE = fileURLToPath(new URL('capacity.json', import.meta.url));
const PAGE = new URL('../../../docs/capacity.md', import.meta.url);
const MARKS = [
  '<!-- checked: npm run bench -- capacity --measure -->',
  '<!-- end of checked -->',
] as const;

interface Options extends Demand {
  readonly coreHour?: number;
  readonly gbMonth?: number;
  readonly measure: boolean;
  readonly quick: boolean;
  readonly coefficients: string;
}

/** Adds the command that prints the plan for a demand, and the one that measures its coefficients. */
export function addCapacityCommand(program: Command): void {
  program
    .command('capacity')
    .description(
      'Prints the resources for a number of returns, computed with the model of docs/capacity.md.',
    )
    .option('--returns-a-day <count>', 'returns processed in a day', number, 100_000)
    .option('--deliveries-per-return <count>', 'webhooks per return', number, 4)
    .option('--endpoints <count>', 'endpoints that share the deliveries', number, 1_000)
    .option('--latency-ms <ms>', 'time until a receiver responds', number, 200)
    .option('--peak <factor>', 'ratio of the busiest minutes to the mean of the day', number, 4)
    .option('--core-hour <price>', 'price of a core for an hour', number)
    .option('--gb-month <price>', 'price of a GB of disk for a month', number)
    .option('--coefficients <file>', 'the measured coefficients', FILE)
    .option(
      '--measure',
      'measure the coefficients and check the model: half an hour, idle machine',
      false,
    )
    .option(
      '--quick',
      'with --measure and --coefficients: a short run, to see that it works',
      false,
    )
    .addHelpText('after', '\nThe defaults of the demand are examples, not figures of a shop.')
    .action(run);
}

async function run(o: Options, command: Command): Promise<void> {
  if (!o.measure) {
    process.stdout.write(`${planTable(o, await readCoefficients(o.coefficients, command))}\n`);
    return;
  }
  if (o.quick && o.coefficients === FILE) {
    command.error(
      'the result of --quick is not precise enough to be stored there: choose another file with --coefficients',
    );
  }
  await measure(o);
}

async function measure(o: Options): Promise<never> {
  const rows = CAPACITY_ROWS;
  const results = await runRows({
    rows,
    quick: o.quick,
    writeDocs: false,
  });
  if (results.some(hasFailed)) process.exit(1);
  if (!o.quick && !results.every(mayBePublished)) process.exit(2);
  const day = new Date().toISOString().slice(0, 10);
  const [machine = ''] = await machineLines('');
  const known = coefficientsFrom(results, `${day}, ${machine}`);
  const table = checkTable(checksFrom(results, known));
  await writeFile(o.coefficients, `${JSON.stringify(known, null, 2)}\n`);
  process.stdout.write(`\n${table}\n`);
  if (o.coefficients === FILE) {
    const text = `Measured on ${known.source}.\n\n${table}`;
    await writeFile(PAGE, betweenMarks(await readFile(PAGE, 'utf8'), MARKS, text));
  }
  process.exit(0);
}

async function readCoefficients(file: string, command: Command): Promise<Coefficients> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text !== undefined) return coefficients.parse(JSON.parse(text));
  return command.error(
    `the coefficients are not measured yet (${file}): npm run bench -- capacity --measure`,
  );
}

/** A plan as lines of text. */
function planTable(o: Options, known: Coefficients): string {
  const { returnsADay, deliveriesPerReturn, endpoints, latencyMs, peak } = o;
  const plan = planFor({ returnsADay, deliveriesPerReturn, endpoints, latencyMs, peak }, known);
  const list = (entries: Iterable<readonly [string, number]>, digits: number) =>
    [...entries].map(([name, value]) => `${name} ${value.toFixed(digits)}`).join(', ');
  const full = plan.endpointUse > 1 ? ': deliveries wait for places' : '';
  const lines: [string, string][] = [
    [
      'deliveries a second',
      `${plan.mean.toFixed(1)}, ${plan.busiest.toFixed(1)} in the busiest minutes`,
    ],
    ['cores in the busiest minutes', list(plan.cores, 2)],
    ['processes', list(Object.entries(plan.processes), 0)],
    ['connections to PostgreSQL', `${plan.databaseConnections}`],
    ['requests to receivers in flight', plan.inFlight.toFixed(0)],
    ["use of an endpoint's in-flight limit", `${(plan.endpointUse * 100).toFixed(1)} %${full}`],
    ['disk', `${plan.diskGb.toFixed(1)} GB, and ${plan.growthGb.toFixed(1)} GB more each month`],
    [
      'a million deliveries',
      `${plan.coreHoursPerMillion.toFixed(2)} core-hours, ${plan.gbPerMillion.toFixed(2)} GB stored`,
    ],
  ];
  if (o.coreHour !== undefined && o.gbMonth !== undefined) {
    const price = pricePerMillion(plan, { coreHour: o.coreHour, gbMonth: o.gbMonth });
    lines.push(['price of a million deliveries', price.toFixed(2)]);
  }
  const width = Math.max(...lines.map(([name]) => name.length));
  return [
    `measured on ${known.source}`,
    ...lines.map(([name, value]) => `${name.padEnd(width)}  ${value}`),
  ].join('\n');
}

function number(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('must be a number above 0');
  return value;
}
