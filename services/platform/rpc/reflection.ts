import {
  create,
  type DescFile,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { nestedTypes } from '@bufbuild/protobuf/reflect';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ConnectRouter } from '@connectrpc/connect';
import {
  ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from '../../../proto/gen/grpc/reflection/v1/reflection_pb.ts';
import {
  ServerReflection as ServerReflectionAlpha,
  type ServerReflectionRequest as ServerReflectionRequestAlpha,
  ServerReflectionRequestSchema as ServerReflectionRequestAlphaSchema,
  ServerReflectionResponseSchema as ServerReflectionResponseAlphaSchema,
} from '../../../proto/gen/grpc/reflection/v1alpha/reflection_pb.ts';

import { ErrorInfoSchema } from '../../../proto/gen/rms/common/v1/error_pb.ts';

type Lookup = ServerReflectionRequest['messageRequest'];
type Result = NonNullable<
  MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']
>;

/**
 * Serves the standard reflection service, in its current and its older version. With it, grpcurl lists, describes and
 * calls RPCs without proto files. Not for production.
 *
 * @param services the services to describe.
 * @see https://github.com/grpc/grpc/blob/master/doc/server-reflection.md
 */
export function reflectionRoutes(services: readonly DescService[]) {
  const catalogue = catalogueOf(services);
  return (router: ConnectRouter): void => {
    router.service(ServerReflection, {
      async *serverReflectionInfo(requests: AsyncIterable<ServerReflectionRequest>) {
        for await (const request of requests) yield respond(catalogue, request);
      },
    });
    router.service(ServerReflectionAlpha, {
      async *serverReflectionInfo(requests: AsyncIterable<ServerReflectionRequestAlpha>) {
        // The two versions have the same messages in different packages, so this converts them by their bytes.
        for await (const request of requests) {
          const bytes = toBinary(ServerReflectionRequestAlphaSchema, request);
          const response = respond(catalogue, fromBinary(ServerReflectionRequestSchema, bytes));
          yield fromBinary(
            ServerReflectionResponseAlphaSchema,
            toBinary(ServerReflectionResponseSchema, response),
          );
        }
      },
    });
  };
}

function respond(catalogue: Catalogue, request: ServerReflectionRequest): ServerReflectionResponse {
  return create(ServerReflectionResponseSchema, {
    validHost: request.host,
    originalRequest: request,
    messageResponse: lookUp(catalogue, request.messageRequest),
  });
}

interface Catalogue {
  readonly services: readonly string[];
  readonly files: ReadonlyMap<string, DescFile>;
  /** The files of services, methods, messages, enums and extensions, by full name. */
  readonly symbols: ReadonlyMap<string, DescFile>;
}

function catalogueOf(services: readonly DescService[]): Catalogue {
  const files = new Map<string, DescFile>();
  for (const service of services) collect(service.file, files);
  // No request or response contains this message, but errors do.
  collect(ErrorInfoSchema.file, files);
  const symbols = new Map<string, DescFile>();
  for (const file of files.values()) {
    for (const type of nestedTypes(file)) {
      symbols.set(type.typeName, file);
      if (type.kind !== 'service') continue;
      for (const method of type.methods) symbols.set(`${type.typeName}.${method.name}`, file);
    }
  }
  return { services: services.map(({ typeName }) => typeName).sort(), files, symbols };
}

function collect(file: DescFile, into: Map<string, DescFile>): void {
  if (into.has(file.proto.name)) return;
  into.set(file.proto.name, file);
  for (const dependency of file.dependencies) collect(dependency, into);
}

function lookUp(catalogue: Catalogue, lookup: Lookup): Result {
  switch (lookup.case) {
    case 'listServices':
      return {
        case: 'listServicesResponse',
        value: { service: catalogue.services.map((name) => ({ name })) },
      };
    case 'fileByFilename':
      return fileResult(catalogue.files.get(lookup.value));
    case 'fileContainingSymbol':
      return fileResult(catalogue.symbols.get(lookup.value));
    case 'allExtensionNumbersOfType':
      return {
        case: 'allExtensionNumbersResponse',
        value: { baseTypeName: lookup.value, extensionNumber: [] },
      };
    case 'fileContainingExtension':
    case undefined:
      return fileResult(undefined);
    default:
      return lookup satisfies never;
  }
}

function fileResult(file: DescFile | undefined): Result {
  if (!file) {
    return {
      case: 'errorResponse',
      value: { errorCode: Code.NotFound, errorMessage: 'not found' },
    };
  }
  const needed = new Map<string, DescFile>();
  collect(file, needed);
  const fileDescriptorProto = [...needed.values()].map((each) =>
    toBinary(FileDescriptorProtoSchema, each.proto),
  );
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
}
