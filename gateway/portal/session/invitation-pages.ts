import { Html, html } from '../../oauth/pages/html.ts';
import { definitionList, layout } from '../../oauth/pages/layout.ts';
import { type PageResponse, page } from '../../oauth/pages/response.ts';
import { ROLE_NAMES } from '../../oauth/pages/rights.ts';
import type { Acceptance } from '../../tenancy/accept-invitation.ts';
import { type FoundInvitation, INVITATION_PATH } from '../../tenancy/invitations.ts';
import { ROLE_TEXTS } from '../role-texts.ts';

/** Where the sign-in of an invited person begins. */
export const INVITATION_SIGN_IN_PATH = `${INVITATION_PATH}/sign-in`;
export const INVITATION_ACCEPT_PATH = `${INVITATION_PATH}/accept`;
/** Asks the identity provider to show its form, so that another address can be entered. */
export const INVITATION_SIGN_IN_AGAIN = `${INVITATION_SIGN_IN_PATH}?prompt=login`;

/** Sends the token of the link as a form, and removes it from the address, so that no log and no history has it. */
const SCRIPT = `
const open = () => {
  const code = location.hash.slice(1);
  if (code === '') return;
  history.replaceState(null, '', location.pathname);
  const form = document.createElement('form');
  form.method = 'post';
  form.action = '${INVITATION_PATH}';
  const field = document.createElement('input');
  field.type = 'hidden';
  field.name = 'code';
  field.value = code;
  form.append(field);
  document.body.append(form);
  form.submit();
};
addEventListener('hashchange', open);
open();
`;

/** A page of the invitation. Each has the script, because a link may be opened in its tab. */
function invitationPage(title: string, body: Html, status = 200): PageResponse {
  const content = html`${body}
<script>${new Html(SCRIPT)}</script>`;
  return page(layout(title, content), { status, formTargets: SELF, script: SCRIPT });
}

/** A form of these pages leads to nothing but this origin. */
const SELF = ["'self'"];

/** The page for a browser that has opened no invitation: without scripts, a person enters the code. */
export function entryPage(): PageResponse {
  return invitationPage(
    'Open an invitation',
    html`<h1>Open your invitation</h1>
<p class="lead">Open the link in the mail once more. If this page stays, copy what follows the # in the link.</p>
<form method="post" action="${INVITATION_PATH}">
<label for="code">Code of the invitation</label>
<input id="code" name="code" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="2000" required>
<button>Continue</button>
</form>`,
  );
}

/** Before the sign-in: names the inviting person, and not the shop. @param inviter see `inviterText`. */
export function invitedPage(inviter: string): PageResponse {
  return invitationPage(
    'You are invited',
    html`<h1>${inviter} invites you to a team</h1>
<p>Sign in with the e-mail address that got the invitation. Then you see which team it is, and can accept.</p>
<p><a class="action" href="${INVITATION_SIGN_IN_PATH}">Sign in</a></p>
<p class="note">If you do not know ${inviter}, close this page.</p>`,
  );
}

/** After a sign-in with another address. It does not name the shop, nor the invited address. */
export function wrongAddressPage(email: string): PageResponse {
  return invitationPage(
    'Another address is invited',
    html`<h1>Another address is invited</h1>
<p>You signed in as <strong>${email}</strong>. This invitation is for another e-mail address: the one that got it. Sign in with that address. If you cannot, ask the person who invited you to invite ${email}.</p>
<p><a class="action" href="${INVITATION_SIGN_IN_AGAIN}">Sign in with another address</a></p>`,
    403,
  );
}

export function unconfirmedPage(): PageResponse {
  return invitationPage(
    'Your address is not confirmed',
    html`<h1>Your address is not confirmed</h1>
<p>The page where you sign in does not confirm that you have an e-mail address. Confirm your address there, then sign in again.</p>
<p><a class="action" href="${INVITATION_SIGN_IN_AGAIN}">Sign in again</a></p>`,
    403,
  );
}

/** After the sign-in with the invited address: the only page that names the shop. */
export function offerPage(
  { shopName, role, email }: FoundInvitation,
  inviter: string,
): PageResponse {
  return invitationPage(
    'Accept the invitation',
    html`<h1>Join ${shopName}?</h1>
<p class="lead">${inviter} invites you.</p>
${definitionList([
  ['Shop', shopName],
  ['Your role', ROLE_NAMES[role]],
  ['What it is for', ROLE_TEXTS[role]],
  ['You signed in as', email],
])}
<form method="post" action="${INVITATION_ACCEPT_PATH}"><button>Accept and join</button></form>
<p class="note">If you do not want to join, close this page: then nothing happens. <a href="${INVITATION_SIGN_IN_AGAIN}">Sign in with another address</a></p>`,
  );
}

type Problem = Exclude<Acceptance['kind'], 'member'>;

/** Why an invitation cannot be accepted, and what to do. None of these pages names the shop. */
const PROBLEMS: Readonly<
  Record<Problem, { status: number; title: string; text: (inviter: string) => string }>
> = {
  unknown: {
    status: 404,
    title: 'This link does not work',
    text: () =>
      'Perhaps it is not complete: copy the whole link from the mail. If you got more than one invitation, use the newest. Otherwise ask to be invited again.',
  },
  expired: {
    status: 410,
    title: 'This invitation has expired',
    text: (inviter) => `An invitation works for seven days. Ask ${inviter} to send you a new one.`,
  },
  withdrawn: {
    status: 410,
    title: 'This invitation was withdrawn',
    text: (inviter) => `If you think that this is a mistake, ask ${inviter}.`,
  },
  replaced: {
    status: 410,
    title: 'There is a newer invitation',
    text: (inviter) =>
      `A newer link has replaced this one. Use the link in the newest mail, or ask ${inviter} for it.`,
  },
  accepted: {
    status: 410,
    title: 'This invitation was used',
    text: (inviter) =>
      `An invitation works once. If you accepted it, open the portal and sign in as you did then. If you did not, tell ${inviter}.`,
  },
  unbacked: {
    status: 410,
    title: 'This invitation has ended',
    text: (inviter) =>
      `${inviter} may no longer invite people. Ask somebody else of the team to invite you.`,
  },
  full: {
    status: 409,
    title: 'The team is full',
    text: (inviter) =>
      `It has no room for another person. Ask ${inviter} to make room. Then open the link again.`,
  },
  otherAccount: {
    status: 403,
    title: 'Another account is linked to this address',
    text: (inviter) =>
      `You are in this team already, with another account of the page where you sign in. Sign in with that account. If you have lost it, ask ${inviter} to remove you from the team and invite you again.`,
  },
};

/** @param inviter see `inviterText`; empty when the invitation is unknown. */
export function problemPage(kind: Problem, inviter = ''): PageResponse {
  const { status, title, text } = PROBLEMS[kind];
  const portal = html`<p><a class="action" href="/portal">Open the portal</a></p>`;
  return invitationPage(
    title,
    html`<h1>${title}</h1>
<p>${text(inviter)}</p>
${kind === 'accepted' ? portal : undefined}`,
    status,
  );
}
