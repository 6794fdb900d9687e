import { ROLE_PERMISSIONS, type Role } from '../../tenancy/permissions.ts';
import { html } from './html.ts';
import { appText, type ConnectingApp, decision, definitionList, layout } from './layout.ts';
import { ROLE_NAMES, rightsByGroup } from './rights.ts';

/** The values of the field `access`. They say what the user allows. */
export const ACCESS = { everything: 'everything', readOnly: 'read_only' } as const;

/** The page with the form for consent. It has the fields `access` and `csrf`, and buttons with the name `consent`. */
export function consentPage(o: {
  readonly allow: string;
  readonly cancel: string;
  readonly app: ConnectingApp;
  /** The name that the app gives itself; undefined when it is unknown. */
  readonly selfName: string | undefined;
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
  const groups = rightsByGroup(ROLE_PERMISSIONS[o.shop.role]).map(
    ({ name, rights }) => html`<li><strong>${name}:</strong> ${rights.join('; ')}</li>
`,
  );
  const choices = html`<fieldset>
<legend>What do you allow?</legend>
<label class="choice"><input type="radio" name="access" value="${ACCESS.everything}" checked>Everything in this list</label>
<label class="choice"><input type="radio" name="access" value="${ACCESS.readOnly}">Reading only<small>changes nothing</small></label>
</fieldset>
`;
  return layout(
    'Allow access',
    html`<h1>Allow access to your shop?</h1>
<p class="lead">${appText(o.app)} wants to act for you.</p>
${definitionList([
  ['App', o.app.name ?? 'Unknown'],
  ...(o.selfName === undefined
    ? []
    : [['Calls itself', `“${o.selfName}” (not verified)`] as const]),
  ['Address of the app', o.app.host],
  ['Shop', `${o.shop.name} (no. ${o.shop.shopId})`],
  ['Signed in as', o.email],
  ['Your role', ROLE_NAMES[o.shop.role]],
  ['Access lasts', `${o.grantDays === 1 ? '1 day' : `${o.grantDays} days`} at most`],
])}
${where}
<p>The app can do what your role ${ROLE_NAMES[o.shop.role]} allows, and nothing else:</p>
<ul>
${groups}</ul>
<p>If your role changes, the access changes too. You, every owner and admin of the shop, and the operator of this service can end the access earlier.</p>
${decision({ allow: o.allow, deny: o.cancel, csrf: o.csrf, choices })}`,
  );
}
