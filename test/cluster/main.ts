import { Command, Option } from 'commander';
import { NEXT } from './next-release.ts';
import { autoscale } from './steps/autoscale.ts';
import { install } from './steps/install.ts';
import { privateWebhook } from './steps/private-webhook.ts';
import { production } from './steps/production.ts';
import { refusals } from './steps/refusals.ts';
import { restore } from './steps/restore.ts';
import { signIn } from './steps/sign-in.ts';
import { signals } from './steps/signals.ts';
import { starved } from './steps/starved.ts';
import { upgrade } from './steps/upgrade.ts';
import { wrongAuthority } from './steps/wrong-authority.ts';
import type { Trial } from './trial.ts';

/** In the order in which they run. Those between `install` and `production` need the first, those below the second. */
const STEPS = {
  starved,
  install,
  'sign-in': signIn,
  'private-webhook': privateWebhook,
  upgrade,
  restore,
  production,
  refusals,
  'wrong-authority': wrongAuthority,
  autoscale,
  signals,
} satisfies Record<string, (trial: Trial) => Promise<void>>;

interface Options {
  readonly image: string;
  readonly demoImage: string;
  readonly next: string;
  readonly edgeImage: string;
  readonly url?: string;
  readonly only: readonly (keyof typeof STEPS)[];
}

await new Command('npm run test:cluster --')
  .description(
    'Installs the overlays in the cluster of KUBECONFIG, and shows there what docs/operations.md says of a cluster. It makes the namespaces rms-dev, rms, rms-elsewhere and rms-killer. The images must be in the cluster.',
  )
  .requiredOption('--image <name:tag>', 'stage `release` of deploy/Dockerfile')
  .requiredOption('--demo-image <name:tag>', 'stage `dev`')
  .requiredOption(
    '--next <name:tag>',
    `release ${NEXT}, with one more migration: \`node test/cluster/next-release.ts <folder>\`, and \`deploy/build-image.sh <name:tag>\` in that folder`,
  )
  .requiredOption('--edge-image <name:tag>', 'stage `edge`')
  .option(
    '--url <url>',
    'public address of the dev overlay; the cluster IP of the Service `edge` by default',
  )
  .addOption(
    new Option('--only <steps...>', 'these steps').choices(Object.keys(STEPS)).default([], 'all'),
  )
  .action(main)
  .parseAsync();

async function main(o: Options): Promise<void> {
  let failures = 0;
  const trial: Trial = {
    images: { release: o.image, demo: o.demoImage, edge: o.edgeImage, next: o.next },
    ...(o.url !== undefined && { publicUrl: o.url }),
    say,
    check(what, holds) {
      say(`${holds ? 'holds' : 'FAILS'}: ${what.trim()}`);
      if (!holds) failures += 1;
    },
  };
  for (const [name, step] of Object.entries(STEPS)) {
    if (o.only.length > 0 && !o.only.some((one) => one === name)) continue;
    say(`== ${name}`);
    await step(trial).catch((error: unknown) => trial.check(`${name}: ${String(error)}`, false));
  }
  say(failures === 0 ? 'all holds' : `${failures} of the checks failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}

function say(text: string): void {
  process.stdout.write(`[${Math.round(performance.now() / 1_000)} s] ${text}\n`);
}
