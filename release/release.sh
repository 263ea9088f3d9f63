#!/usr/bin/env bash
# Writes a release into one folder: binaries and images for each architecture, the chart, the manifests as files and
# as an archive for kustomize, the kubectl plugin with its krew manifest, bills of materials, provenance and checksums.
# The Makefile sets the environment:
# VERSION, REGISTRY (of the images), ARCHITECTURES, PLUGIN_PLATFORMS, PLUGIN_FLAGS (of the plugin's compiler), GO.
# Usage: release.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?the folder}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out" && mkdir -p "$out"
programs=(limpet-ipam=ipam-plugin limpet-agent=node-agent limpet-controller=controller kubectl-limpet=kubectl-limpet)

# build PLATFORM FILE PACKAGE FLAGS… builds a program.
build() {
	local platform=$1 file=$2 package=$3
	shift 3
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} "$GO" build -tags grpcnotrace -trimpath -buildvcs=false \
		-ldflags "-s -w -X github.com/limpet-io/limpet/internal/version.release=$VERSION" "$@" -o "$file" "./cmd/$package"
}

# named SUFFIX FILE… copies files into the folder, with a suffix before their extension.
named() {
	local suffix=$1 file base
	shift
	for file; do
		base=${file##*/}
		cp "$file" "$out/${base%%.*}$suffix${base#"${base%%.*}"}"
	done
}

# pack DIRECTORY FILE packs a directory, so that the same files make the same archive.
pack() {
	tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - . | gzip -n >"$2"
}

(cd release && "$GO" build -o "$work/limpet-release" ./cmd/limpet-release)
multi_agent=() multi_controller=()
for arch in $ARCHITECTURES; do
	dir=$work/linux-$arch
	mkdir -p "$dir/said"
	for p in "${programs[@]}"; do
		flags=()
		if [[ $p == limpet-ipam=* ]]; then read -ra flags <<<"$PLUGIN_FLAGS"; fi
		echo "building ${p%=*} for linux/$arch"
		build "linux/$arch" "$dir/${p%=*}" "${p#*=}" "${flags[@]}"
	done
	bin/limpet-cluster images --arch "$arch" --out "$work/images-linux-$arch.tar" \
		"$REGISTRY/limpet-agent:$VERSION=$dir/limpet-agent,$dir/limpet-ipam" "$REGISTRY/limpet-controller:$VERSION=$dir/limpet-controller,$dir/kubectl-limpet"
	multi_agent+=("$arch=$dir/limpet-agent,$dir/limpet-ipam")
	multi_controller+=("$arch=$dir/limpet-controller,$dir/kubectl-limpet")
	files=("${programs[@]/%=*/}")
	"$work/limpet-release" sbom --dir "$dir/said" "${files[@]/#/$dir/}" "$work/images-linux-$arch.tar"
	"$work/limpet-release" provenance --out "$dir/said/provenance.intoto.json" "${files[@]/#/$dir/}" "$work/images-linux-$arch.tar"
	named "-linux-$arch" "${files[@]/#/$dir/}" "$dir"/said/*
	cp "$work/images-linux-$arch.tar" "$out/"
done
bin/limpet-cluster multiarch --out "$out/limpet-agent.oci.tar" --name "$REGISTRY/limpet-agent:$VERSION" "${multi_agent[@]}"
bin/limpet-cluster multiarch --out "$out/limpet-controller.oci.tar" --name "$REGISTRY/limpet-controller:$VERSION" "${multi_controller[@]}"

plugins=()
for platform in $PLUGIN_PLATFORMS; do
	name=kubectl-limpet-${platform/\//-}
	mkdir -p "$work/$name"
	if [[ -e $out/$name ]]; then cp "$out/$name" "$work/$name/kubectl-limpet"; else build "$platform" "$work/$name/kubectl-limpet" kubectl-limpet; fi
	cp LICENSE "$work/$name/"
	pack "$work/$name" "$out/$name.tar.gz"
	plugins+=("$out/$name.tar.gz")
done
"$work/limpet-release" krew --version "$VERSION" "${plugins[@]}" >"$out/krew.yaml"

(cd release/chart && "$GO" run ./cmd/limpet-chart --deploy ../../deploy --version "$VERSION" --registry "$REGISTRY" --tag "$VERSION" --archive "$out")

# The manifests with the names of the images, for kustomizations of users, and built for kubectl apply.
deploy=$work/manifests/limpet/deploy
mkdir -p "${deploy%/*}" && git ls-files -z deploy | tar --null -T - -cf - | tar -C "${deploy%/*}" -xf - # no files of the builder
rm -r "$deploy/chart" "$deploy/exceptions.txt"
find "$deploy" -name '*.yaml' -exec sed -i "s|image: limpet-io/\(limpet-[a-z]*\):dev|image: $REGISTRY/\1:$VERSION|" {} +
pack "$work/manifests" "$out/deploy.tar.gz"
for file in install=default install-own-network=own-network install-adopt-network=adopt-network install-flannel=flannel install-shared-network=shared-network install-given-certificate=given-certificate \
	install-cert-manager=cert-manager crds=crds alerts=alerts monitoring=monitoring uninstall=uninstall; do
	"${LIMPET_PROGRAMS:-bin/assets}/kubectl" kustomize "$deploy/${file#*=}" >"$out/${file%=*}.yaml"
done

if grep -rE --include='*.yaml' "image: .*:dev[\"']?[[:space:]]*$" "$deploy" "$out"; then
	echo "release.sh: these manifests have images of a checkout" >&2
	exit 1
fi
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
