#!/usr/bin/env bash
# deploy/build-image.sh [IMAGE [TARGET]]: builds the image with buildah or docker, whichever is there.
#
#   IMAGE       name and tag, by default $IMAGE, which Skaffold sets
#   TARGET      stage of deploy/Dockerfile, by default `release`
#   PUSH_IMAGE  `true` pushes it to the registry that the name contains (Skaffold sets it)
#   LOAD_IMAGE  a command that loads an archive into a cluster without a registry: `kind load image-archive`,
#               `minikube image load`, `ctr -n k8s.io images import`
#   NODE_IMAGE, BASE_IMAGE  other base images than those of deploy/Dockerfile
set -euo pipefail
cd "$(dirname "$0")/.."

image=${1:-${IMAGE:?usage: deploy/build-image.sh IMAGE [TARGET]}}
target=${2:-release}
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' package.json)
revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
node=${NODE_IMAGE:+FROM $NODE_IMAGE} debian=${BASE_IMAGE:+FROM $BASE_IMAGE}
sed -e "s|^FROM node:[^ ]*|${node:-&}|" -e "s|^FROM debian:[^ ]*|${debian:-&}|" deploy/Dockerfile > "$files/Dockerfile"
build=(--file "$files/Dockerfile" --target "$target" --tag "$image")
build+=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")

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
  archive "$files/image.tar"
  $LOAD_IMAGE "$files/image.tar"
fi
