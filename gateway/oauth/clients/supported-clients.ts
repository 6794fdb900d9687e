import { z } from 'zod';
import { matches, type RedirectRule, redirectRule } from './redirect-uri.ts';

/** A supported client, and where its codes may be sent. */
export interface ClientDocument {
  /** What a person is told that is asking. */
  readonly name: string;
  /** Address of its metadata document where it names itself by one; it has these redirect URIs only. */
  readonly clientId?: string | undefined;
  readonly redirectUris: readonly string[];
  /** Where it publishes them. */
  readonly source?: string | undefined;
}

export interface SupportedClients {
  /** The client id of all clients that do not name themselves by a metadata document. */
  readonly preconfiguredId: string;
  /** Every client id there is. */
  readonly ids: readonly string[];
  /** The redirect URIs of the list, as published; without those of which only a form is known. */
  readonly redirectUris: readonly string[];
  isListed(redirectUri: string): boolean;
  /** Whether that client may have its codes sent there. */
  allows(clientId: string, redirectUri: string): boolean;
  /** Name of a client that publishes that redirect URI; undefined when several do, or none. */
  nameOf(clientId: string, redirectUri: string): string | undefined;
}

/**
 * The list of supported clients (interface: Authentication, MCP server, 4).
 *
 * @throws Error for a redirect URI that no list may hold.
 */
export function createSupportedClients(
  preconfiguredId: string,
  documents: readonly ClientDocument[],
): SupportedClients {
  const rulesOf = new Map<ClientDocument, readonly RedirectRule[]>(
    documents.map((document) => [document, document.redirectUris.map(redirectRule)]),
  );
  const isOf = (document: ClientDocument, uri: string): boolean =>
    rulesOf.get(document)?.some((rule) => matches(rule, uri)) ?? false;
  const behind = (clientId: string): readonly ClientDocument[] =>
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
    isListed: (uri) => documents.some((document) => isOf(document, uri)),
    allows: (clientId, uri) => behind(clientId).some((document) => isOf(document, uri)),
    nameOf(clientId, uri) {
      const [first, ...others] = behind(clientId).filter((document) => isOf(document, uri));
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
 * Reads a list of supported clients from configuration: JSON, `[{name, client_id?, redirect_uris}]`.
 *
 * @throws when it is malformed, or holds a redirect URI that no list may hold.
 */
export function parseClientDocuments(text: string): readonly ClientDocument[] {
  const parsed = documentsSchema.parse(JSON.parse(text));
  return parsed.map(({ name, client_id: clientId, redirect_uris: redirectUris }) => {
    for (const uri of redirectUris) redirectRule(uri);
    return { name, redirectUris, ...(clientId !== undefined && { clientId }) };
  });
}
