import { DOCS_PATHS } from '../../../gateway/docs/paths.ts';
import type { NewPartnerApp } from '../../../gateway/tenancy/partner-apps.ts';
import { PARTNER_SCOPES } from '../../../services/contract/operations.ts';
import type { Memory } from '../memory.ts';

/** The redirect URI of the partner's demo app. */
export const PARTNER_REDIRECT_URI = 'http://127.0.0.1:7777/callback';

/** The client id of the API reference: a page that gets the same tokens as a partner's app. */
export const REFERENCE_CLIENT_ID = 'api-reference';

/** The apps of the demo. */
export function demoApps(baseUrl: string, { partner }: Pick<Memory, 'partner'>): NewPartnerApp[] {
  return [
    {
      name: 'Demo partner app',
      redirectUris: [PARTNER_REDIRECT_URI],
      scopes: PARTNER_SCOPES,
      fixed: { clientId: partner.clientId, secret: partner.clientSecret },
    },
    {
      name: 'API reference',
      redirectUris: [`${baseUrl}${DOCS_PATHS.oauthRedirect}`],
      scopes: PARTNER_SCOPES,
      isPublic: true,
      fixed: { clientId: REFERENCE_CLIENT_ID },
    },
  ];
}
