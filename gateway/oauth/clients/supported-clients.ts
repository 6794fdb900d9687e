import { z } from 'zod';
import { hasApp, matches, type RedirectRule, redirectRule } from './redirect-uri.ts';

/** A supported client and its redirect URIs. */
export interface ClientDocument {
  /** The name that the pages show. */
  readonly name: string;
  /** The URL of the client's metadata document, when the client uses this URL as its client id. */
  readonly clientId?: string | undefined;
  readonly redirectUris: readonly string[];
  /** The page that publishes the redirect URIs. */
  readonly source?: string | undefined;
}

export interface SupportedClients {
  /** The client id of all clients that do not use a metadata document. */
  readonly preconfiguredId: string;
  /** The preconfigured client id and all others. */
  readonly ids: readonly string[];
  /** All redirect URIs of the list, except those with a placeholder. */
  readonly redirectUris: readonly string[];
  isListed(redirectUri: string): boolean;
  /** Whether this client may use this redirect URI. */
  allows(clientId: string, redirectUri: string): boolean;
  /**
   * Whether an app that connected as this client is still on the list.
   *
   * @param app as a grant has it, see `appOf`; null for old grants.
   */
  includes(clientId: string, app: string | null): boolean;
  /** The name of the only client that publishes this redirect URI; undefined when no client or several do. */
  nameOf(clientId: string, redirectUri: string): string | undefined;
}

/**
 * The list of supported clients (interface: Authentication, MCP server, 4).
 *
 * @throws Error for a redirect URI that is not allowed in the list.
 */
export function createSupportedClients(
  preconfiguredId: string,
  documents: readonly ClientDocument[],
): SupportedClients {
  const rulesOf = new Map<ClientDocument, readonly RedirectRule[]>(
    documents.map((document) => [document, document.redirectUris.map(redirectRule)]),
  );
  const contains = (document: ClientDocument, uri: string): boolean =>
    rulesOf.get(document)?.some((rule) => matches(rule, uri)) ?? false;
  const documentsOf = (clientId: string): readonly ClientDocument[] =>
    clientId === preconfiguredId
      ? documents
      : documents.filter((document) => document.clientId === clientId);
  const named = documents.flatMap(({ clientId }) => (clientId === undefined ? [] : [clientId]));
  return {
    preconfiguredId,
    ids: [...new Set([preconfiguredId, ...named])],
    redirectUris: [...new Set(documents.flatMap(({ redirectUris }) => redirectUris))].filter(
      (uri) => redirectRule(uri).kind !== 'segment',
    ),
    isListed: (uri) => documents.some((document) => contains(document, uri)),
    allows: (clientId, uri) => documentsOf(clientId).some((document) => contains(document, uri)),
    includes: (clientId, app) =>
      documentsOf(clientId).some(
        (document) => app === null || rulesOf.get(document)?.some((rule) => hasApp(rule, app)),
      ),
    nameOf(clientId, uri) {
      const [first, ...others] = documentsOf(clientId).filter((document) =>
        contains(document, uri),
      );
      return others.length === 0 ? first?.name : undefined;
    },
  };
}

const documentsSchema = z
  .array(
    z.object({
      name: z.string().min(1).max(100),
      client_id: z.url({ protocol: /^https$/ }).optional(),
      redirect_uris: z.array(z.string()).min(1),
    }),
  )
  .min(1);

/**
 * Parses a list of supported clients: JSON, `[{name, client_id?, redirect_uris}]`.
 *
 * @throws when the text is malformed, or contains a redirect URI that is not allowed.
 */
export function parseClientDocuments(text: string): readonly ClientDocument[] {
  const parsed = documentsSchema.parse(JSON.parse(text));
  return parsed.map(({ name, client_id: clientId, redirect_uris: redirectUris }) => {
    for (const uri of redirectUris) redirectRule(uri);
    return { name, redirectUris, ...(clientId !== undefined && { clientId }) };
  });
}
