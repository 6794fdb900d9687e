import { SCOPE_RULES, type Scope } from '../../../services/contract/scopes.ts';
import type { PartnerApp } from '../../tenancy/partner-apps.ts';
import { displayHost, formTarget } from '../clients/redirect-uri.ts';
import { type Html, html } from '../pages/html.ts';
import { decision, definitionList, layout } from '../pages/layout.ts';
import { messagePage, shopPage } from '../pages/pages.ts';
import { type PageResponse, page } from '../pages/response.ts';
import type { ShopOfUser } from '../sign-in/account.ts';
import type { AuthorizationRequest } from '../sign-in/requests.ts';
import { partnerSignInPath } from './address.ts';

/** The form for consent. It has the hidden field `csrf`, and buttons with the name `consent`. */
export function partnerConsentPage(
  request: AuthorizationRequest,
  o: {
    readonly app: PartnerApp;
    readonly shop: ShopOfUser;
    readonly email: string;
    readonly csrf: string;
    /** What the app gets at once. */
    readonly scopes: readonly Scope[];
    /** What an owner still has to allow. */
    readonly waitingScopes: readonly Scope[];
    /** Maximum duration of the access. Days. */
    readonly days: number;
  },
): PageResponse {
  const { app, shop } = o;
  const at = partnerSignInPath(request.uid);
  const host = displayHost(request.redirectUri);
  const logo =
    app.logo === null
      ? undefined
      : html`<img class="logo" src="${app.logo}" alt="" referrerpolicy="no-referrer">
`;
  const now =
    o.scopes.length > 0
      ? html`<p>This is what the app can do in the shop:</p>
${listOf(o.scopes)}`
      : html`<p>For now the app can do nothing in the shop.</p>`;
  const later =
    o.waitingScopes.length > 0
      ? html`<p>It also asks for this. You may not allow it, so it waits until an owner of the shop allows it in the portal:</p>
${listOf(o.waitingScopes)}`
      : undefined;
  const body = layout(
    'Allow access',
    html`${logo}<h1>Connect ${app.name} to your shop?</h1>
<p class="lead"><strong>${app.name}</strong> (${host}) asks to act for your shop.</p>
${definitionList([
  ['App', app.name],
  ...(app.website === null ? [] : [['Website of the app', app.website] as const]),
  ['Address of the app', host],
  ['Shop', `${shop.name} (no. ${shop.shopId})`],
  ['Signed in as', o.email],
  ['Access lasts', `${o.days} days at most`],
])}
${now}
${later}
<p>The access ends when you leave the shop or may no longer manage webhooks. Members who may manage webhooks can end it earlier, in the portal under Partner apps. The owners of the shop get a mail.</p>
${decision({ allow: `${at}/allow`, deny: `${at}/cancel`, csrf: o.csrf })}`,
  );
  return page(body, {
    formTargets: [formTarget(request.redirectUri)],
    images: app.logo === null ? [] : [new URL(app.logo).origin],
  });
}

/** The texts of scopes. */
function listOf(scopes: readonly Scope[]): Html {
  const texts = scopes.map(
    (scope) => html`<li>${SCOPE_RULES[scope].text}</li>
`,
  );
  return html`<ul>
${texts}</ul>`;
}

/** The form for the shop. Its field is `shop_id`. */
export function partnerShopPage(
  request: AuthorizationRequest,
  o: {
    readonly app: PartnerApp;
    readonly shops: readonly ShopOfUser[];
    readonly problem?: string;
  },
): PageResponse {
  const action = `${partnerSignInPath(request.uid)}/shop`;
  const app = { name: o.app.name, host: displayHost(request.redirectUri) };
  return page(shopPage({ action, app, shops: o.shops, problem: o.problem }), {
    status: o.problem === undefined ? 200 : 400,
    formTargets: [formTarget(request.redirectUri)],
  });
}

/** A shop for which the user may not connect apps, and who may. */
export interface ShopOfOthers {
  readonly name: string;
  /** Such as `Ada (Owner)`. */
  readonly whoMay: readonly string[];
}

/** Says who may connect the app instead. */
export function notAllowedPage(
  request: AuthorizationRequest,
  o: {
    readonly app: PartnerApp;
    readonly email: string;
    /** Empty when the user has no shop. */
    readonly shops: readonly ShopOfOthers[];
  },
): PageResponse {
  const shops = o.shops.map(
    ({ name, whoMay }) => html`<li><strong>${name}:</strong> ${whoMay.join(', ') || 'nobody'}</li>
`,
  );
  const text =
    o.shops.length === 0
      ? html`<p>No shop is linked to ${o.email}. Ask the owner of your shop to add you, or connect again and sign in with another address.</p>`
      : html`<p>You are signed in as ${o.email}. Only people who may manage webhooks can connect apps. Ask one of them to connect ${o.app.name}:</p>
<ul>
${shops}</ul>`;
  const title = 'You may not connect this app';
  return backPage(
    request,
    layout(
      title,
      html`<h1>${title}</h1>
${text}
<form method="post" action="${cancelPath(request)}"><button class="quiet">Back to the app</button></form>`,
    ),
  );
}

const MESSAGES = {
  notConfirmed: {
    title: 'Your address is not confirmed',
    text: 'The page where you signed in did not confirm your e-mail address. Confirm it there, and connect again.',
  },
  otherAccount: {
    title: 'Another account is linked to this address',
    text: 'In your shops, your address is linked to another account of the page where you sign in. Ask an owner or admin to remove you from the team and add you again, or ask the operator of this service to unlink the account. Then connect again.',
  },
  tooWeak: {
    title: 'A fresh or stronger sign-in is needed',
    text: 'The page where you sign in must confirm that you have just signed in, or that you used a second factor. Connect again and sign in there again.',
  },
} as const;

/** A page about a sign-in that cannot continue, with the way back to the app. */
export function partnerMessage(
  request: AuthorizationRequest,
  name: keyof typeof MESSAGES,
): PageResponse {
  return backPage(request, messagePage({ ...MESSAGES[name], cancel: cancelPath(request) }));
}

function backPage(request: AuthorizationRequest, body: string): PageResponse {
  return page(body, { status: 403, formTargets: [formTarget(request.redirectUri)] });
}

function cancelPath({ uid }: AuthorizationRequest): string {
  return `${partnerSignInPath(uid)}/cancel`;
}

const UNKNOWN = {
  'unknown client': [
    'This app is not known here',
    'No app with this client id is registered at this service.',
  ],
  'redirect URI not registered': [
    'The address of the app is not registered',
    'The app asks to return to an address that is not registered for it. It must send a registered redirect_uri, character by character.',
  ],
  'repeated parameter': ['This link does not work', 'The address contains a parameter twice.'],
} as const;

/** Maximum length of a shown parameter. Characters. */
const SHOWN_MAX = 200;

/** Explains an error of an authorization request that cannot be returned to the app (RFC 6749, 4.1.2.1). */
export function unknownAppPage(reason: keyof typeof UNKNOWN, query: URLSearchParams): PageResponse {
  const [title, text] = UNKNOWN[reason];
  const sent = [
    ['Client id', query.get('client_id')],
    ['Return address', query.get('redirect_uri')],
  ].flatMap(([name, value]) =>
    value === null || value === undefined
      ? []
      : [[String(name), value.slice(0, SHOWN_MAX)] as const],
  );
  const body = layout(
    title,
    html`<h1>${title}</h1>
<p>${text} Nothing was allowed. Go back to the app, and tell its makers what this page says.</p>
${sent.length > 0 ? definitionList(sent) : undefined}`,
  );
  return page(body, { status: 400 });
}
