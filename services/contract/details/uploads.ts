import { z } from 'zod';
import {
  type CustomerUpload,
  CustomerUpload_Kind,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { means, nullableText, time } from '../resources/response-fields.ts';
import { iso, textOrNull } from '../views/values.ts';

const uploadId = () => means(z.int(), 'Identifier of the upload');
const uploadLink = {
  url: means(z.string(), 'Link to the file'),
  created_at: means(time(), 'When it was added'),
};

/** The texts and files that the shopper added to a line item. */
export const uploads = z
  .object({
    images: means(
      z.array(
        z.object({
          id: uploadId(),
          source: means(nullableText(), 'Who added it, such as `customer`; null when unknown'),
          ...uploadLink,
        }),
      ),
      'Images, oldest first',
    ),
    media: means(
      z.array(
        z.object({
          id: uploadId(),
          type: means(nullableText(), 'Kind of media, such as `video`; null when unknown'),
          ...uploadLink,
        }),
      ),
      'Videos and other media, oldest first',
    ),
  })
  .meta({ id: 'CustomerUploads' });

/** The uploads of a line item, by kind. */
export function uploadsView(all: readonly CustomerUpload[]): z.infer<typeof uploads> {
  const of = (kind: CustomerUpload_Kind) => all.filter((upload) => upload.kind === kind);
  return {
    images: of(CustomerUpload_Kind.IMAGE).map(({ id, source, url, createdAt }) => ({
      id: Number(id),
      source: textOrNull(source),
      url,
      created_at: iso(createdAt),
    })),
    media: of(CustomerUpload_Kind.MEDIA).map(({ id, mediaType, url, createdAt }) => ({
      id: Number(id),
      type: textOrNull(mediaType),
      url,
      created_at: iso(createdAt),
    })),
  };
}
