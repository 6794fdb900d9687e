import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { until } from '../until.ts';
import { callPortal } from './call.ts';
import type { WriteStage } from './write-stage.ts';

type Open = (page: Page, stage: WriteStage) => Promise<unknown>;

/** How a user makes a write. */
export interface Trial {
  /** The page. */
  readonly at: (stage: WriteStage) => string | Promise<string>;
  /** Makes the page before it is opened. */
  readonly before?: (page: Page) => Promise<unknown>;
  /** Opens the dialog and fills it. Without it, `press` is a button of the page. */
  readonly open?: Open;
  /** Fills a form of the page itself. */
  readonly fill?: Open;
  /** The button that sends. */
  readonly press: string | RegExp;
  /** The menu of the button. */
  readonly menu?: string | RegExp;
  /** Another user, with a session of its own. */
  readonly as?: string;
  /** The status of the repeat, when it is not 200: the first try was carried out, and the service says so. */
  readonly repeat?: number;
  /** The kind of the timeline entry that follows from an event of the write: it may come after the answer. */
  readonly noted?: string;
  /** Waits until the page itself shows that the write was carried out, so that nobody repeats it. */
  readonly shown?: (page: Page) => Promise<unknown>;
}

const press = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: true }).first().click();
const by =
  (name: string | ((stage: WriteStage) => string)): Open =>
  (page, stage) =>
    press(page, typeof name === 'string' ? name : name(stage));
const more = (name: string) => async (page: Page) => {
  await press(page, 'More actions');
  await press(page, name);
};
const filled =
  (open: Open, fields: Readonly<Record<string, string>>): Open =>
  async (page, stage) => {
    await open(page, stage);
    for (const [label, text] of Object.entries(fields)) {
      await page.getByRole('dialog').getByLabel(label).first().fill(text);
    }
  };
const chosen =
  (open: Open, label: string, option: string): Open =>
  async (page, stage) => {
    await open(page, stage);
    await page.getByRole('dialog').getByLabel(label).first().selectOption(option);
  };
const returnIn = (state: string) => (stage: WriteStage) => stage.returnIn(state);
const webhook = (stage: WriteStage) => `/webhooks/${stage.webhookId}`;
const url = () => `https://hooks.example.com/${randomUUID()}`;
const text = () => `Trial ${randomUUID()}`;

/** The page that follows the end of the session. */
const signedOut = (page: Page) =>
  until(async () => !/^\/portal\/(?:returns|sessions)/.test(new URL(page.url()).pathname));

/** An address at which nothing listens. */
const SILENT = 'http://127.0.0.1:9/';
const connectPlatform = (page: Page) =>
  callPortal(page, 'CommerceService/Connect', { url: SILENT });

/** How the owner makes each write, by the name of the method. A later one may need what an earlier one made. */
export const WRITE_TRIALS: Readonly<Record<string, Trial>> = {
  'ReturnsService/ProcessReturn': {
    at: returnIn('open'),
    open: by('Process'),
    press: 'Process the return',
  },
  'ReturnsService/FlagReturn': {
    at: returnIn('open'),
    open: filled(more('Put into review'), { 'Why must somebody look at it?': 'A trial' }),
    press: 'Put into review',
  },
  'ReturnsService/UnflagReturn': {
    at: returnIn('flagged'),
    open: by('End the review'),
    press: 'End the review',
  },
  'ReturnsService/CancelReturn': {
    at: returnIn('open'),
    open: more('Cancel the return'),
    press: 'Cancel the return',
  },
  'ReturnsService/ReturnWithdrawal': {
    at: async (stage) => {
      await stage.withdraw();
      return '/withdrawals';
    },
    press: /^Make a return of order/,
    shown: async (page) => {
      await page.getByRole('link', { name: /^Return \d+$/ }).waitFor();
    },
  },
  'ReturnsService/UpdateSettings': {
    at: () => '/settings',
    fill: async (page) => {
      const days = page.getByLabel('Days until a return expires');
      await days.fill(String(Number(await days.inputValue()) + 1));
    },
    press: 'Save',
    shown: async (page) => {
      await page.locator('button[type=submit]:disabled').waitFor();
    },
  },
  'ReturnsService/UpdatePolicy': {
    at: () => '/policy',
    fill: async (page) => {
      await page.locator('summary').filter({ hasText: 'Change: time limit' }).click();
      await page.getByLabel('Days', { exact: true }).fill('3650');
    },
    press: 'Save as a new version',
    shown: async (page) => {
      await page.locator('button[type=submit]:disabled').waitFor();
    },
  },
  'CommerceService/Connect': {
    at: () => '/commerce',
    before: (page) => callPortal(page, 'CommerceService/Disconnect', {}),
    open: filled(by('Connect an endpoint'), { Address: SILENT }),
    press: 'Connect',
    // The secret is shown once, so the repeat has none.
    repeat: 200,
  },
  'CommerceService/RotateSecret': {
    at: () => '/commerce',
    before: connectPlatform,
    open: by('Rotate the secret'),
    press: 'Make a new secret',
  },
  'CommerceService/StartCheck': {
    at: () => '/commerce',
    before: connectPlatform,
    press: 'Check the connection',
    shown: async (page) => {
      await page.getByText(/the others were not asked/).waitFor();
    },
  },
  'CommerceService/CreateShopifyInstallLink': {
    at: () => '/commerce',
    before: (page) => callPortal(page, 'CommerceService/Disconnect', {}),
    open: filled(by('Connect a store at Shopify'), {
      'Domain of the store': 'trial.myshopify.com',
    }),
    press: 'Begin the install',
  },
  'CommerceService/Disconnect': {
    at: () => '/commerce',
    before: connectPlatform,
    open: by('Disconnect'),
    press: 'Disconnect',
  },
  'DispositionsService/GradeItems': {
    at: returnIn('open'),
    open: chosen(by('Grade'), 'Condition', 'Grade B'),
    press: 'Record',
  },
  'DispositionsService/Assess': {
    at: returnIn('open'),
    open: chosen(by('Set dispositions'), 'Disposition', 'Resale hold'),
    press: 'Record',
  },
  'ReturnsService/AddNote': {
    at: returnIn('open'),
    open: filled(more('Add a note'), { Note: 'A trial' }),
    press: 'Add the note',
  },
  'FraudService/CreateReport': {
    at: returnIn('open'),
    open: async (page) => {
      await more('Report fraud')(page);
      await page.getByRole('dialog').getByLabel('What happened').selectOption({ index: 1 });
      await page.getByRole('dialog').getByLabel('Comment').fill('A trial');
    },
    press: 'Report as fraud',
    noted: 'fraud_report.created',
  },
  'DestinationsService/CreateDestination': {
    at: () => '/destinations',
    open: (page, stage) =>
      filled(by('Add a destination'), { Name: text(), 'Country code': 'GB' })(page, stage),
    press: 'Save',
  },
  'DestinationsService/UpdateDestination': {
    at: () => '/destinations',
    open: (page, stage) =>
      filled(by(`Edit ${stage.destination}`), { Recipient: text() })(page, stage),
    press: 'Save',
  },
  'ApiKeysService/CreateApiKey': {
    at: () => '/api-keys',
    open: async (page, stage) => {
      await filled(by('Create an API key'), { 'Which system will use it?': text() })(page, stage);
      await page.locator('input[type=checkbox][value=carts]').check();
    },
    press: 'Create the key',
  },
  'ApiKeysService/RotateApiKey': {
    at: () => '/api-keys',
    open: by((stage) => `Rotate ${stage.key}`),
    press: 'Make a new key',
  },
  'ApiKeysService/ApproveApiKey': {
    at: () => '/api-keys',
    open: by((stage) => `Approve ${stage.waitingKeys.approve}`),
    press: 'Approve the key',
  },
  'ApiKeysService/RejectApiKey': {
    at: () => '/api-keys',
    open: by((stage) => `Reject ${stage.waitingKeys.reject}`),
    press: 'Reject the key',
  },
  'ApiKeysService/RevokeApiKey': {
    at: () => '/api-keys',
    open: by((stage) => `Revoke ${stage.keyToRevoke}`),
    press: 'Revoke the key',
  },
  'AppsService/AllowAppScopes': {
    at: () => '/partner-apps',
    open: by((stage) => `Allow more for ${stage.app}`),
    press: 'Allow',
  },
  'AppsService/RemoveApp': {
    at: () => '/partner-apps',
    open: by((stage) => `Remove ${stage.app}`),
    press: 'Remove the app',
    repeat: 404,
  },
  'AssistantsService/DisconnectAssistant': {
    at: () => '/assistants',
    open: (page, stage) =>
      page
        .getByRole('row')
        .filter({ hasText: stage.app })
        .getByRole('button', { name: /^Disconnect/ })
        .click(),
    press: 'Disconnect',
  },
  'WebhooksService/SetPayloadVersion': {
    at: () => '/payload-version',
    open: (page) => press(page, /^Use \d{4}-\d\d$/),
    press: /^Use \d{4}-\d\d$/,
  },
  'TeamService/ResendInvitation': {
    at: () => '/team',
    open: by((stage) => `New link for ${stage.invited.resend}`),
    press: 'Make a new link',
  },
  'TeamService/WithdrawInvitation': {
    at: () => '/team',
    open: by((stage) => `Withdraw the invitation of ${stage.invited.withdraw}`),
    press: 'Withdraw the invitation',
  },
  'TeamService/InviteMember': {
    at: () => '/team',
    open: async (page, stage) => {
      await filled(by('Invite a person'), { 'E-mail': `${randomUUID()}@example.com` })(page, stage);
      await page.getByRole('dialog').locator('input[value=analyst]').check();
    },
    press: 'Invite',
  },
  'TeamService/ChangeRole': {
    at: () => '/team',
    open: (page, stage) => page.getByLabel(`Role of ${stage.member}`).selectOption('warehouse'),
    press: 'Change the role',
  },
  'TeamService/EndMemberAccess': {
    at: () => '/team',
    open: by((stage) => `Sign out ${stage.member}`),
    press: 'End the access',
  },
  'TeamService/RemoveMember': {
    at: () => '/team',
    open: by((stage) => `Remove ${stage.member}`),
    press: 'Remove from the team',
    repeat: 404,
  },
  'WebhooksService/CreateSubscription': {
    at: () => '/webhooks',
    open: (page, stage) => filled(by('Add a webhook'), { Address: url() })(page, stage),
    press: 'Add the webhook',
  },
  'WebhooksService/UpdateSubscription': {
    at: webhook,
    open: (page, stage) => filled(by('Edit'), { Description: text() })(page, stage),
    press: 'Save',
  },
  'WebhooksService/RevealSecret': { at: webhook, press: 'Show the secret' },
  'WebhooksService/RotateSecret': { at: webhook, open: by('Rotate'), press: 'Make a new secret' },
  'WebhooksService/EndFormerSecrets': {
    at: webhook,
    open: by('End the old secret'),
    press: 'End the old secret',
  },
  'WebhooksService/SendTest': {
    at: webhook,
    open: by('Send a test event'),
    press: 'Send the test',
  },
  'WebhooksService/RetryDeliveries': {
    at: (stage) => `/webhooks/${stage.failingId}`,
    press: 'Send what waits now',
  },
  'WebhooksService/ReplayDelivery': {
    at: (stage) => `/deliveries/${stage.deliveryId}`,
    press: 'Send again',
  },
  'WebhooksService/StartReplay': {
    at: (stage) => `/deliveries?webhook=${stage.webhookId}&state=delivered`,
    open: by('Send these again'),
    press: /^Send \d+ deliver/,
  },
  'WebhooksService/StartBackfill': {
    at: webhook,
    open: more('Send stored events (backfill)'),
    press: 'Start the backfill',
  },
  'WebhooksService/CancelReplay': {
    at: (stage) => `/replays/${stage.replayId}`,
    // The job ends too soon for a click, so the page reads that it runs. The call that stops it is real.
    before: (page) =>
      page.route('**/*/GetReplay', async (route) => {
        const response = await route.fetch();
        const { replay } = (await response.json()) as { readonly replay: object };
        await route.fulfill({
          response,
          json: { replay: { ...replay, state: 'REPLAY_STATE_RUNNING' } },
        });
      }),
    press: 'Stop',
  },
  'WebhooksService/DeleteSubscription': {
    at: (stage) => `/webhooks/${stage.spareId}`,
    open: more('Delete'),
    press: 'Delete the webhook',
    repeat: 404,
  },
  'SessionService/SwitchShop': {
    at: () => '/returns',
    as: 'two_shops',
    menu: /^Shop: /,
    press: / · /,
    shown: (page) => page.getByText(/^You are now in /).waitFor(),
  },
  'SessionService/EndSession': {
    at: () => '/sessions',
    open: (page) => press(page, /^End the session of /),
    press: 'End the session',
    repeat: 404,
  },
  'SessionService/SignOut': {
    at: () => '/returns',
    as: 'analyst',
    menu: /^Account of /,
    press: 'Sign out',
    shown: signedOut,
  },
  'SessionService/SignOutEverywhere': {
    at: () => '/sessions',
    as: 'analyst',
    open: by('Sign out everywhere'),
    press: 'Sign out everywhere',
    shown: signedOut,
  },
};
