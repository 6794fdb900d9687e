import { beforeAll, expect, test } from '@jest/globals';
import { receiverForTests } from '../../kit/during.ts';
import { deleteWebhooks } from '../../kit/portal/call.ts';
import { failingWebhook } from '../../kit/portal/failing-webhook.ts';
import { SCHEMES, userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';
import { startReceiver } from '../../kit/webhooks/receiver.ts';

// A merchant's developer whose receiver failed: what waits is sent at once, not hours later.

const developer = userForTests('developer');
const broken = receiverForTests();
beforeAll(() => {
  broken.answer = (response) => void response.writeHead(500).end();
});

test('a changed address gets what waits at once, and the page says so', async () => {
  const { page, open, accessibilityErrors, problems } = developer;
  const repaired = await startReceiver();
  try {
    const webhookId = await failingWebhook(developer.stack, page, broken);
    await open(`/webhooks/${webhookId}`);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page
      .getByRole('dialog')
      .getByRole('textbox', { name: /^Address/ })
      .fill(new URL('/repaired', repaired.url).href);
    const dialog = page.getByRole('dialog');
    await dialog
      .getByText('1 delivery that waits is sent to the new address when you save.')
      .waitFor();
    for (const scheme of SCHEMES) expect(await accessibilityErrors(scheme)).toEqual([]);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    const notice = page.getByText(
      `Webhook ${webhookId}: address changed. 1 delivery that waits is sent to the new address now.`,
    );
    await notice.waitFor();
    // The message covers nothing of the page.
    await page.setViewportSize({ width: 1440, height: 900 });
    const [covered, covers] = [
      await page.locator('main').boundingBox(),
      await notice.boundingBox(),
    ];
    expect((covers?.x ?? 0) + (covers?.width ?? 0)).toBeLessThanOrEqual(covered?.x ?? 0);
    await until(() => repaired.received.length === 1);
    await page.locator('main').getByText('Delivered', { exact: true }).first().waitFor();
    // On another page, "Undo" would not say what it changes.
    await page.getByRole('link', { name: '← All webhooks' }).click();
    await notice.waitFor({ state: 'detached' });
    expect(problems()).toEqual([]);
    await deleteWebhooks(page, webhookId);
  } finally {
    await repaired.stop();
  }
});

test('a repaired receiver gets what waits by a button, beside the time of the next attempt', async () => {
  const { page, open, problems } = developer;
  const webhookId = await failingWebhook(developer.stack, page, broken);
  await open(`/webhooks/${webhookId}`);
  const banner = page.getByRole('alert').filter({ hasText: 'attempts have failed since' });
  await banner.getByText("The receiver's system says that it had an error (500)").waitFor();
  await banner.getByText(/^1 delivery not received since .*: 1 is still tried\.$/).waitFor();
  await banner.getByText(/The next attempt is at /).waitFor();
  const before = broken.received.length;
  await banner.getByRole('button', { name: 'Send what waits now' }).click();
  await page.getByText('1 delivery is sent now.').waitFor();
  await until(() => broken.received.length === before + 1);
  await banner.getByRole('link', { name: 'Open this delivery' }).click();
  await page.getByText('Attempt 4').waitFor();
  const answer = page.getByText("The receiver's system says that it had an error (500). Its logs");
  await answer.first().waitFor();
  const header = page.getByText('traceparent').first();
  expect(await header.isVisible()).toBe(false);
  await page.getByText('Request headers').first().click();
  await header.waitFor();
  expect(problems()).toEqual([]);
  await deleteWebhooks(page, webhookId);
});
