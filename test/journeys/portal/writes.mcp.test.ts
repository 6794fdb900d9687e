import { MethodOptions_IdempotencyLevel as Level } from '@bufbuild/protobuf/wkt';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Page, Route } from 'playwright-core';
import { PORTAL_METHODS } from '../../../gateway/portal/methods.ts';
import { callPortal, fullName } from '../../kit/portal/call.ts';
import { userForTests } from '../../kit/portal/visitor.ts';
import { type WriteStage, writeStage } from '../../kit/portal/write-stage.ts';
import { WRITE_TRIALS } from '../../kit/portal/write-trials.ts';
import { until } from '../../kit/until.ts';

// Every write of the portal, offline, slow, and with its answer lost: it is sent at once or fails at once and is never
// sent later, a dialog stays until the answer, and a repeat has no second effect.

const owner = userForTests('owner');
let stage: WriteStage;
beforeAll(async () => {
  // A second session, which can be ended.
  await owner.visit('owner');
  stage = await writeStage(owner.stack, owner.page);
});
owner.atEnd(async () => stage?.strike());

afterEach(async () => {
  await owner.page.unrouteAll({ behavior: 'ignoreErrors' });
  await owner.page.context().setOffline(false);
});

/** The methods that write, from the protos. */
const WRITES = PORTAL_METHODS.filter(
  ({ method }) => method.idempotency !== Level.NO_SIDE_EFFECTS,
).map(({ method }) => `${method.parent.name}/${method.name}`);

/** Sees the requests of one method. */
async function tap(page: Page, name: string) {
  const bodies: string[] = [];
  let hold: ((route: Route) => void) | undefined;
  await page.route(`**/portal/api/${fullName(name)}`, (route) => {
    bodies.push(route.request().postData() ?? '');
    const taken = hold;
    hold = undefined;
    return taken ? taken(route) : route.continue();
  });
  return {
    bodies,
    /** The next request, which waits. */
    next: () =>
      new Promise<Route>((resolve) => {
        hold = resolve;
      }),
  };
}

/**
 * The number of entries of a return's timeline; of nothing when the write is not about a return.
 *
 * @param noted waits until an entry of this kind is among them.
 */
async function entriesOf(page: Page, body: string, noted?: string): Promise<number | undefined> {
  const { returnId } = JSON.parse(body) as { readonly returnId?: string };
  if (returnId === undefined) return undefined;
  const read = { returnId, pageSize: 200 };
  return until(async () => {
    const { entries } = await callPortal<{ entries: { readonly kind: string }[] }>(
      page,
      'ReturnsService/GetTimeline',
      read,
    );
    return (noted === undefined || entries.some(({ kind }) => kind === noted)) && entries.length;
  });
}

const keyOf = (body: string) =>
  (JSON.parse(body) as { readonly idempotencyKey?: string }).idempotencyKey;

/** The ids of what a response is about, and the secrets in it. */
function identityOf(response: unknown): unknown {
  const { secrets, ...parts } = response as Readonly<Record<string, { readonly id?: string }>>;
  const objects = Object.entries(parts).filter(([, part]) => typeof part === 'object');
  return [secrets, ...objects.map(([name, part]) => [name, part.id])];
}

describe('offline, slow, and with its answer lost', () => {
  test.each(WRITES)('%s', async (name) => {
    const trial = WRITE_TRIALS[name];
    if (!trial) throw new Error('write how a user makes this write into write-trials.ts');
    const visitor = trial.as === undefined ? owner : await owner.visit(trial.as);
    const { page } = visitor;
    const { bodies, next } = await tap(page, name);
    await trial.before?.(page);
    await visitor.open(await trial.at(stage));
    await trial.open?.(page, stage);
    await trial.fill?.(page, stage);
    const surface = trial.open ? page.getByRole('dialog') : page.locator('body');
    const button = (text = trial.press) =>
      surface
        .locator('button:not([aria-current])')
        .and(surface.getByRole('button', { name: text, exact: true }))
        .first();
    const send = async (text = trial.press) => {
      if (trial.menu !== undefined) await page.getByRole('button', { name: trial.menu }).click();
      await button(text).click();
    };

    // What the dialog reads is there.
    if (trial.menu === undefined) await button().click({ trial: true });
    await page.context().setOffline(true);
    await send();
    await surface.getByText('Not sent: no network', { exact: true }).waitFor();
    const read = page.waitForResponse((response) => response.ok());
    await page.context().setOffline(false);
    await read;
    expect(bodies).toHaveLength(1);

    const sent = next();
    await send();
    const route = await sent;
    if (trial.open) {
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.mouse.click(5, 5);
      const buttons = surface.getByRole('button');
      expect(await buttons.count()).toBeGreaterThanOrEqual(3);
      // At one moment: the page may be rendered again between two questions.
      const enabled = await buttons.evaluateAll((all) =>
        all.filter((one) => !one.matches(':disabled')),
      );
      expect(enabled).toHaveLength(0);
    } else {
      await page.getByText('Sent, no answer yet.').waitFor();
      if (trial.menu === undefined) await button().dispatchEvent('click');
      else await send();
    }
    expect(bodies).toHaveLength(2);

    const first = await route.fetch();
    expect(first.status()).toBe(200);
    const entries = await entriesOf(page, bodies[0] ?? '', trial.noted);
    await route.abort('connectionreset');
    if (trial.shown) return void (await trial.shown(page));
    await surface.getByText('Sent, no answer yet', { exact: true }).waitFor();
    await surface.getByText(/Look at (?:the return|this page) before you try again/).waitFor();

    const answered = page.waitForResponse((response) => response.url().endsWith(name));
    await send(trial.open ? 'Try again' : trial.press);
    const second = await answered;
    expect(second.status()).toBe(trial.repeat ?? 200);
    // What does not exist any more was removed by the first try.
    if (trial.repeat === 404) await surface.waitFor({ state: 'detached' });
    // What was not sent may be made from newer data. The repeat of what was sent is the same.
    expect(bodies.slice(2)).toEqual([bodies[1]]);
    expect(new Set(bodies.map(keyOf)).size).toBe(1);
    if (trial.repeat === undefined) {
      expect(identityOf(await second.json())).toEqual(identityOf(await first.json()));
    }
    if (name !== 'ReturnsService/ProcessReturn') {
      expect(await entriesOf(page, bodies[0] ?? '')).toBe(entries);
    }
  });
});
