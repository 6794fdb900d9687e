import { ROLE_PERMISSIONS, type Role } from '../../tenancy/permissions.ts';
import { Html, html } from './html.ts';
import { RIGHTS, ROLE_NAMES } from './rights.ts';
import { STYLE } from './style.ts';

/** The client that wants to connect: its name if known, and the host that receives the code. */
export interface ConnectingApp {
  readonly name: string | undefined;
  readonly host: string;
}

function layout(title: string, body: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · Returns</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<p class="brand">
<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d="M3 8.5 12 4l9 4.5v8L12 21l-9-4.5z"/><path d="M3 8.5 12 13l9-4.5M12 13v8"/></svg>
Returns Management
</p>
${body}
</main>
</body>
</html>
`.text;
}

function appText({ name, host }: ConnectingApp): Html {
  return name === undefined
    ? html`An app at <strong>${host}</strong>`
    : html`<strong>${name}</strong> (${host})`;
}

function problemText(problem: string | undefined): Html | undefined {
  return problem === undefined
    ? undefined
    : html`<p class="problem" id="problem" role="alert">${problem}</p>`;
}

/** The form for the e-mail address: field `email`. */
export function emailPage(o: {
  readonly action: string;
  readonly app: ConnectingApp;
  readonly email?: string | undefined;
  readonly problem?: string | undefined;
}): string {
  const described =
    o.problem === undefined
      ? undefined
      : new Html(' aria-invalid="true" aria-describedby="problem"');
  return layout(
    o.problem === undefined ? 'Sign in' : 'Check your e-mail address',
    html`<h1>Sign in to connect your shop</h1>
<p class="lead">${appText(o.app)} asks to work with your returns.</p>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" inputmode="email" autocapitalize="none" spellcheck="false" maxlength="320" required autofocus value="${o.email ?? ''}"${described}>
<button>Continue</button>
</form>
<p class="note">You sign in on the next page. This page never asks for a password.</p>`,
  );
}

/** The form for the shop: field `shop_id`. */
export function shopPage(o: {
  readonly action: string;
  readonly app: ConnectingApp;
  readonly shops: readonly { readonly shopId: bigint; readonly name: string }[];
  readonly problem?: string | undefined;
}): string {
  const choices = o.shops.map(
    ({
      shopId,
      name,
    }) => html`<label class="choice"><input type="radio" name="shop_id" value="${shopId}" required>${name}<small>no. ${shopId}</small></label>
`,
  );
  return layout(
    'Choose a shop',
    html`<h1>Which shop?</h1>
<p class="lead">${appText(o.app)} works in one shop at a time. You can connect another one later.</p>
${problemText(o.problem)}
<form method="post" action="${o.action}">
<fieldset>
<legend>Shop</legend>
${choices}</fieldset>
<button>Continue</button>
</form>`,
  );
}

/** The form for consent: hidden field `csrf`, buttons `consent`. */
export function consentPage(o: {
  readonly allow: string;
  readonly cancel: string;
  readonly app: ConnectingApp;
  /** Whether the app runs on the user's own machine. */
  readonly isOnUsersMachine: boolean;
  readonly shop: { readonly shopId: bigint; readonly name: string; readonly role: Role };
  readonly email: string;
  readonly csrf: string;
  /** Maximum duration of the access. Days. */
  readonly grantDays: number;
}): string {
  const where = o.isOnUsersMachine
    ? html`<p>The app runs on your own computer. Allow it only if you have just started this yourself.</p>`
    : undefined;
  const rights = ROLE_PERMISSIONS[o.shop.role].map(
    (permission) => html`<li>${RIGHTS[permission]}</li>
`,
  );
  const csrf = html`<input type="hidden" name="csrf" value="${o.csrf}">`;
  const days = o.grantDays === 1 ? '1 day' : `${o.grantDays} days`;
  return layout(
    'Allow access',
    html`<h1>Allow access to your shop?</h1>
<p class="lead">${appText(o.app)} wants to act for you.</p>
<dl>
<div><dt>App</dt><dd>${o.app.name ?? 'Unknown'}</dd></div>
<div><dt>Address of the app</dt><dd>${o.app.host}</dd></div>
<div><dt>Shop</dt><dd>${o.shop.name} (no. ${o.shop.shopId})</dd></div>
<div><dt>Signed in as</dt><dd>${o.email}</dd></div>
<div><dt>Your role</dt><dd>${ROLE_NAMES[o.shop.role]}</dd></div>
<div><dt>Access lasts</dt><dd>${days} at most</dd></div>
</dl>
${where}
<p>The app can do what your role allows, and nothing else:</p>
<ul>
${rights}</ul>
<p>If your role changes, the access changes too. You, every owner and admin of the shop, and the operator of this service can end the access earlier.</p>
<form method="post" action="${o.allow}">${csrf}<button name="consent" value="allow">Allow</button></form>
<form method="post" action="${o.cancel}">${csrf}<button class="quiet" name="consent" value="deny">Deny</button></form>`,
  );
}

/**
 * A page without a form field. With `cancel` it has a button that leads back to the app, with `next` a link to another
 * page of this service.
 */
export function messagePage(o: {
  readonly title: string;
  readonly text: string;
  readonly cancel?: string | undefined;
  readonly next?: { readonly href: string; readonly text: string };
}): string {
  const back =
    o.cancel === undefined
      ? undefined
      : html`<form method="post" action="${o.cancel}"><button class="quiet">Back to the app</button></form>`;
  return layout(
    o.title,
    html`<h1>${o.title}</h1>
<p>${o.text}</p>
${o.next && html`<p><a href="${o.next.href}">${o.next.text}</a></p>`}${back}`,
  );
}
