#!/usr/bin/env bash
# deploy/build-image.sh [IMAGE [TARGET]]: builds the image with buildah or docker, whichever is there.
#
#   IMAGE       name and tag, by default $IMAGE, which Skaffold sets
#   TARGET      stage of deploy/Dockerfile, by default `release`
#   PUSH_IMAGE  `true` pushes it to the registry that the name contains (Skaffold sets it)
#   LOAD_IMAGE  a command that loads an archive into a cluster without a registry: `kind load image-archive`,
#               `minikube image load`, `ctr -n k8s.io images import`
#   BASES       `pinned` takes the bases of a release, by digest (deploy/bases)
#   NODE_IMAGE, BASE_IMAGE  other base images
set -euo pipefail
cd "$(dirname "$0")/.."

image=${1:-${IMAGE:?usage: deploy/build-image.sh IMAGE [TARGET]}}
target=${2:-release}
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)
revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)

build=(--file deploy/Dockerfile --target "$target" --tag "$image")
build+=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
if [ "${BASES:-}" = pinned ]; then
  pinned() { sed -n "s/^FROM \(.*\) AS $1$/\1/p" deploy/bases/Dockerfile; }
  NODE_IMAGE=$(pinned node) BASE_IMAGE=$(pinned debian)
fi
for name in NODE_IMAGE BASE_IMAGE; do
  [ -z "${!name:-}" ] || build+=(--build-arg "$name=${!name}")
done

archive() { # writes the image to a file
  if [ "$builder" = buildah ]; then
    buildah push "$image" "docker-archive:$1:$image"
  else
    docker save --output "$1" "$image"
  fi
}

if command -v buildah > /dev/null; then
  builder=buildah
  buildah build --layers "${build[@]}" .
else
  builder=docker
  docker build "${build[@]}" .
fi
if [ "${PUSH_IMAGE:-}" = true ]; then "$builder" push "$image"; fi
if [ -n "${LOAD_IMAGE:-}" ]; then
  file=$(mktemp -u --suffix=.tar)
  trap 'rm -f "$file"' EXIT
  archive "$file"
  $LOAD_IMAGE "$file"
fi
