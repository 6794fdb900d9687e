import { Html, html } from '../../../gateway/oauth/pages/html.ts';
import {
  decision,
  definitionList,
  layout,
  problemText,
} from '../../../gateway/oauth/pages/layout.ts';
import type { ShopOfAccount } from './directory.ts';

/** The sign-in form: fields `email` and `password`. */
export function signInPage(o: {
  readonly action: string;
  readonly email: string;
  readonly problem?: string;
}): string {
  const described =
    o.problem === undefined
      ? undefined
      : new Html(' aria-invalid="true" aria-describedby="problem"');
  return layout(
    o.problem === undefined ? 'Sign in' : 'Check your e-mail address and password',
    html`<h1>Sign in</h1>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="320" required value="${o.email}"${described}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="200" required>
<button>Sign in</button>
</form>`,
  );
}

/** The form for consent: hidden field `csrf`, buttons `consent`. */
export function partnerConsentPage(o: {
  readonly allow: string;
  readonly deny: string;
  readonly csrf: string;
  readonly app: { readonly name: string; readonly host: string };
  readonly shop: { readonly shopId: bigint; readonly name: string };
  readonly email: string;
  /** What the app may do, in plain words. */
  readonly rights: readonly string[];
  /** Maximum duration of the access. Days. */
  readonly days: number;
}): string {
  const rights = o.rights.map(
    (right) => html`<li>${right}</li>
`,
  );
  return layout(
    'Allow access',
    html`<h1>Connect ${o.app.name} to your shop?</h1>
<p class="lead"><strong>${o.app.name}</strong> (${o.app.host}) asks to act for your shop.</p>
${definitionList([
  ['App', o.app.name],
  ['Address of the app', o.app.host],
  ['Shop', `${o.shop.name} (no. ${o.shop.shopId})`],
  ['Signed in as', o.email],
  ['Access lasts', `${o.days} days at most`],
])}
<p>The app can do this in the shop, and nothing else:</p>
<ul>
${rights}</ul>
<p>The access ends when you leave the shop or may no longer manage webhooks. Members who may manage webhooks can end it earlier, in the portal under Partner apps.</p>
${decision({ allow: o.allow, deny: o.deny, csrf: o.csrf })}`,
  );
}

/** Says who may connect an app instead. @param o.cancel path of the form that leads back to the app. */
export function notAllowedPage(o: {
  readonly app: string;
  readonly email: string;
  readonly shops: readonly ShopOfAccount[];
  readonly cancel: string;
}): string {
  const shops = o.shops.map(
    ({ name, whoMay }) => html`<li><strong>${name}:</strong> ${whoMay.join(', ') || 'nobody'}</li>
`,
  );
  const text =
    o.shops.length === 0
      ? html`<p>No shop is linked to ${o.email}. Ask the owner of your shop to add you, or connect again and sign in with another address.</p>`
      : html`<p>You are signed in as ${o.email}. Only people who may manage webhooks can connect apps. Ask one of them to connect ${o.app}:</p>
<ul>
${shops}</ul>`;
  return layout(
    'You may not connect this app',
    html`<h1>You may not connect this app</h1>
${text}
<form method="post" action="${o.cancel}"><button class="quiet">Back to the app</button></form>`,
  );
}

/** An error of an authorization request that cannot be returned to the app. */
export function errorPage(o: {
  readonly title: string;
  readonly text: string;
  /** What the app sent, for its engineers. */
  readonly sent: readonly (readonly [string, string])[];
}): string {
  return layout(
    o.title,
    html`<h1>${o.title}</h1>
<p>${o.text}</p>
${o.sent.length > 0 ? definitionList(o.sent) : undefined}`,
  );
}
