import { type Browser, chromium, type Page } from 'playwright-core';

/** Time limit for a step of a page on a busy machine. Milliseconds. */
const STEP_MS = 60_000;

/** A user's values for the forms. */
export interface SignInAnswers {
  readonly email: string;
  readonly password: string;
  /** The shop to choose if the user has several. */
  readonly shopId?: number;
}

/** Starts Debian's chromium, or the one in CHROMIUM. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // In containers everything runs as root, and chromium's sandbox does not work for root.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    timeout: STEP_MS,
  });
}

/**
 * Opens an authorization URL and completes each form. Stops when the browser is redirected to the app or reaches a page
 * without a form.
 *
 * @param seen called with each shown page.
 * @returns the headings of the shown pages, in order. The app's own page has the heading `Back`.
 */
export async function walkThrough(
  page: Page,
  start: URL,
  o: SignInAnswers & { readonly backAt: string; readonly seen?: (page: Page) => Promise<void> },
): Promise<string[]> {
  page.setDefaultTimeout(STEP_MS);
  const headings: string[] = [];
  await page.goto(start.href);
  for (let step = 0; step < STEPS_MAX; step += 1) {
    if (page.url().startsWith(o.backAt)) return [...headings, BACK];
    headings.push(await page.getByRole('heading', { level: 1 }).innerText());
    await o.seen?.(page);
    if (!(await submitForm(page, o))) return headings;
  }
  throw new Error(`no end after ${STEPS_MAX} pages: ${headings.join(', ')}`);
}

const STEPS_MAX = 8;
const BACK = 'Back';

/** Whether the page had a form. */
async function submitForm(page: Page, o: SignInAnswers): Promise<boolean> {
  const password = page.getByLabel('Password');
  const email = page.locator('input[name=email]');
  const shop = page.locator(`input[name=shop_id][value="${o.shopId}"]`);
  const allow = page.getByRole('button', { name: 'Allow' });
  if (await password.count()) await password.fill(o.password);
  if (await email.count()) await email.fill(o.email);
  if (await shop.count()) await shop.check();
  else if ((await email.count()) === 0 && (await allow.count()) === 0) return false;
  const button = (await allow.count()) ? allow : page.getByRole('button').first();
  await Promise.all([page.waitForNavigation(), button.click()]);
  return true;
}
