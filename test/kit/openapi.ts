import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { dereference } from './arbitrary-request.ts';

type Json = Readonly<Record<string, unknown>>;

/** One operation of an OpenAPI document. */
export interface DocumentedOperation {
  readonly method: string;
  /** With placeholders such as `{id}`. */
  readonly path: string;
  /** The schema of the request body, if there is one. */
  readonly body: unknown;
  readonly query: readonly DocumentedParameter[];
  /** Whether the operation reads the header `Idempotency-Key`. */
  readonly keyed: boolean;
  /**
   * Describes how a response violates the document: an undocumented status, or a body that does not match its schema.
   * Undefined when the response is valid.
   */
  faultOf(answer: { status: number; contentType: string; body: unknown }): string | undefined;
}

export interface DocumentedParameter {
  readonly name: string;
  readonly in: string;
  readonly schema: Json;
}

/** Reads an OpenAPI 3.1 document, to compare responses with it. */
export function documentedOperations(document: Json): DocumentedOperation[] {
  const ajv = new Ajv2020.default({ strict: false, allErrors: false });
  addFormats.default(ajv);
  ajv.addSchema({ ...document, $id: 'openapi' });
  const compiled = new Map<string, ValidateFunction>();
  const paths = document.paths as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      operation.responses
        ? [describeOperation({ document, method, path, operation, ajv, compiled })]
        : [],
    ),
  );
}

interface Operation {
  readonly parameters?: readonly (DocumentedParameter | { readonly $ref: string })[];
  readonly requestBody?: { readonly content: Record<string, { readonly schema: unknown }> };
  readonly responses?: Record<
    string,
    { readonly content?: Record<string, unknown>; $ref?: string }
  >;
}

function describeOperation(o: {
  readonly document: Json;
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly ajv: InstanceType<typeof Ajv2020.default>;
  readonly compiled: Map<string, ValidateFunction>;
}): DocumentedOperation {
  const { method, path, operation, ajv, compiled } = o;
  const parameters = (operation.parameters ?? []).map((one) =>
    '$ref' in one ? (dereference(one, o.document) as unknown as DocumentedParameter) : one,
  );
  const validatorOf = (pointer: string) => {
    const validator = compiled.get(pointer) ?? ajv.compile({ $ref: `openapi#${pointer}` });
    compiled.set(pointer, validator);
    return validator;
  };
  return {
    method: method.toUpperCase(),
    path,
    body: operation.requestBody?.content['application/json']?.schema,
    query: parameters.filter((one) => one.in === 'query'),
    keyed: parameters.some(({ name }) => name === 'Idempotency-Key'),
    faultOf({ status, contentType, body }) {
      const response = operation.responses?.[String(status)];
      if (!response) return `status ${status} is not documented`;
      const base = response.$ref
        ? response.$ref.slice(1)
        : `/paths/${escapePointer(path)}/${method}/responses/${status}`;
      if (body === undefined) return undefined;
      const media = contentType.split(';')[0] ?? '';
      const validate = validatorOf(`${base}/content/${escapePointer(media)}/schema`);
      return validate(body) ? undefined : ajv.errorsText(validate.errors);
    },
  };
}

/** JSON pointer inside a URI fragment (RFC 6901, section 6). */
function escapePointer(text: string): string {
  return encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'));
}
