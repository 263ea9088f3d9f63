#!/usr/bin/env bash
# Publishes the folder that release.sh has written: images and chart in REGISTRY, signatures by cosign for what runs
# (keyless: the identity is that of the workflow), bills of materials as attestations, and a release page with all files.
# With DRY_RUN=1 it prints each command that would leave this machine, with the digests of the real files.
# Usage: REGISTRY=… VERSION=… publish.sh FOLDER
set -euo pipefail
: "${REGISTRY:?the registry and path of the images, as release.sh had it}" "${VERSION:?the version, as release.sh had it}"
cd "${1:?the folder}"
sha256sum --check --quiet --strict SHA256SUMS

# send runs a command that leaves this machine.
send() {
	if [[ -n ${DRY_RUN:-} ]]; then
		echo "would run: $*"
	else
		"$@"
	fi
}

for image in limpet-agent limpet-controller; do
	digest=$(tar -xOf "$image.oci.tar" index.json | grep -o 'sha256:[0-9a-f]\{64\}' | head -n 1)
	send skopeo copy --all --preserve-digests "oci-archive:$image.oci.tar" "docker://$REGISTRY/$image:$VERSION"
	send cosign sign --yes --recursive "$REGISTRY/$image@$digest"
	for bill in "$image"-linux-*.image.spdx.json; do
		send cosign attest --yes --type spdxjson --predicate "$bill" "$REGISTRY/$image@$digest"
	done
done
for chart in limpet-[0-9]*.tgz; do
	send helm push "$chart" "oci://$REGISTRY/charts"
done
send cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS
send gh release create "$VERSION" --verify-tag --generate-notes -- *
