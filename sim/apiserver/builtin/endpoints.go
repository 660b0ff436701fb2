package builtin

import (
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// DefaultEndpoints fills in defaults: pkg/apis/core/v1/defaults.go.
func DefaultEndpoints(endpoints *corev1.Endpoints, _ string) {
	for i := range endpoints.Subsets {
		for j := range endpoints.Subsets[i].Ports {
			fill(&endpoints.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// ValidateEndpoints checks new Endpoints or an update; pkg/apis/core/validation/validation.go.
func ValidateEndpoints(endpoints, old *corev1.Endpoints, _ string) field.ErrorList {
	if old != nil && canon.Equal(&endpoints.Subsets, &old.Subsets) {
		return nil
	}
	var errs field.ErrorList
	for i := range endpoints.Subsets {
		subset, at := &endpoints.Subsets[i], field.NewPath("subsets").Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range subset.Addresses {
			errs = append(errs, validateEndpointAddress(&subset.Addresses[j], at.Child("addresses").Index(j))...)
		}
		for j := range subset.NotReadyAddresses {
			errs = append(errs, validateEndpointAddress(&subset.NotReadyAddresses[j], at.Child("notReadyAddresses").Index(j))...)
		}
		for j := range subset.Ports {
			errs = append(errs, validateEndpointPort(&subset.Ports[j], len(subset.Ports) > 1, at.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateEndpointAddress(address *corev1.EndpointAddress, at *field.Path) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(at.Child("ip"), address.IP, true, nil)
	if address.Hostname != "" {
		errs = append(errs, named(address.Hostname, validation.IsDNS1123Label, at.Child("hostname"))...)
	}
	if address.NodeName != nil {
		errs = append(errs, named(*address.NodeName, validation.IsDNS1123Subdomain, at.Child("nodeName"))...)
	}
	return append(errs, validateEndpointIP(address.IP, at.Child("ip"))...)
}

// validateEndpointIP refuses addresses that nobody can be reached at; ValidateEndpointIP.
func validateEndpointIP(address string, at *field.Path) field.ErrorList {
	ip := net.ParseIP(address)
	if ip == nil {
		return field.ErrorList{field.Invalid(at, address, "must be a valid IP address")}
	}
	var errs field.ErrorList
	for _, refused := range []struct {
		is   bool
		text string
	}{
		{ip.IsUnspecified(), "may not be unspecified (" + address + ")"},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if refused.is {
			errs = append(errs, field.Invalid(at, address, refused.text))
		}
	}
	return errs
}

func validateEndpointPort(port *corev1.EndpointPort, nameRequired bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case port.Name != "":
		errs = append(errs, named(port.Name, validation.IsDNS1123Label, at.Child("name"))...)
	case nameRequired:
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	errs = join(errs, portNumber(port.Port, at.Child("port")), oneOf(port.Protocol, protocols, at.Child("protocol")))
	if port.AppProtocol != nil {
		errs = append(errs, named(*port.AppProtocol, validation.IsQualifiedName, at.Child("appProtocol"))...)
	}
	return errs
}

// DefaultEndpointSlice fills in defaults: pkg/apis/discovery/v1/defaults.go.
func DefaultEndpointSlice(slice *discoveryv1.EndpointSlice, _ string) {
	for i := range slice.Ports {
		fillPointer(&slice.Ports[i].Name, "")
		fillPointer(&slice.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// The limits of pkg/apis/discovery/validation/validation.go.
const (
	maxAddresses     = 100
	maxEndpointPorts = 20_000
	maxEndpoints     = 1000
	maxHints         = 8
	maxTopology      = 16
)

// ValidateEndpointSlice checks a new EndpointSlice or an update; pkg/apis/discovery/validation/validation.go.
func ValidateEndpointSlice(slice, old *discoveryv1.EndpointSlice, _ string) field.ErrorList {
	errs := join(
		oneOf(slice.AddressType, []discoveryv1.AddressType{
			discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
		}, field.NewPath("addressType")),
		validateSlicePorts(slice.Ports, field.NewPath("ports")),
	)
	if old == nil {
		return append(errs, validateSliceEndpoints(slice, field.NewPath("endpoints"))...)
	}
	if !canon.Equal(&slice.Endpoints, &old.Endpoints) {
		errs = append(errs, validateSliceEndpoints(slice, field.NewPath("endpoints"))...)
	}
	fixed := immutable(&slice.AddressType, &old.AddressType, slice.AddressType, field.NewPath("addressType"))
	return append(errs, fixed.MarkCoveredByDeclarative()...)
}

func validateSlicePorts(ports []discoveryv1.EndpointPort, root *field.Path) field.ErrorList {
	if len(ports) > maxEndpointPorts {
		return field.ErrorList{field.TooMany(root, len(ports), maxEndpointPorts)}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		at, name := root.Index(i), *port.Name // defaulted
		if name != "" {
			errs = append(errs, named(name, validation.IsDNS1123Label, at.Child("name"))...)
		}
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
		}
		names[name] = true
		errs = append(errs, supported(*port.Protocol, protocols, at.Child("protocol"))...)
		if port.AppProtocol != nil {
			errs = append(errs, named(*port.AppProtocol, validation.IsQualifiedName, at.Child("appProtocol"))...)
		}
	}
	return errs
}

func validateSliceEndpoints(slice *discoveryv1.EndpointSlice, root *field.Path) field.ErrorList {
	if len(slice.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(root, len(slice.Endpoints), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range slice.Endpoints {
		endpoint, at := &slice.Endpoints[i], root.Index(i)
		addresses := at.Child("addresses")
		switch n := len(endpoint.Addresses); {
		case n == 0:
			errs = append(errs, field.Required(addresses, "must contain at least 1 address").MarkCoveredByDeclarative())
		case n > maxAddresses:
			errs = append(errs, field.TooMany(addresses, n, maxAddresses))
		}
		for j, address := range endpoint.Addresses {
			errs = append(errs, validateSliceAddress(address, slice.AddressType, addresses, j)...)
		}
		if endpoint.NodeName != nil {
			errs = append(errs, named(*endpoint.NodeName, validation.IsDNS1123Subdomain, at.Child("nodeName"))...)
		}
		topology := at.Child("deprecatedTopology")
		if n := len(endpoint.DeprecatedTopology); n > maxTopology {
			errs = append(errs, field.TooMany(topology, n, maxTopology))
		}
		errs = append(errs, metavalidation.ValidateLabels(endpoint.DeprecatedTopology, topology)...)
		if endpoint.Hostname != nil {
			errs = append(errs, named(*endpoint.Hostname, validation.IsDNS1123Label, at.Child("hostname"))...)
		}
		if endpoint.Hints != nil {
			errs = append(errs, validateHints(endpoint.Hints, at.Child("hints"))...)
		}
	}
	return errs
}

func validateSliceAddress(address string, addressType discoveryv1.AddressType, root *field.Path, i int) field.ErrorList {
	at := root.Index(i)
	var errs field.ErrorList
	family := "IPv4"
	switch addressType {
	case discoveryv1.AddressTypeIPv4:
		errs = validation.IsValidIPForLegacyField(at, address, true, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(at, address)
		family = "IPv6"
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(at, address)
	default:
		return nil
	}
	if len(errs) > 0 {
		return errs
	}
	if isV4 := net.ParseIP(address).To4() != nil; isV4 != (family == "IPv4") {
		errs = append(errs, field.Invalid(root, address, "must be an "+family+" address"))
	}
	return append(errs, validateEndpointIP(address, at)...)
}

func validateHints(hints *discoveryv1.EndpointHints, root *field.Path) field.ErrorList {
	var zones, nodes []string
	for _, zone := range hints.ForZones {
		zones = append(zones, zone.Name)
	}
	for _, node := range hints.ForNodes {
		nodes = append(nodes, node.Name)
	}
	if len(zones) > maxHints {
		return field.ErrorList{field.TooMany(root.Child("forZones"), len(zones), maxHints)}
	}
	errs := validateHintNames(zones, validation.IsValidLabelValue, root.Child("forZones"))
	if len(nodes) > maxHints {
		return append(errs, field.TooMany(root.Child("forNodes"), len(nodes), maxHints))
	}
	return append(errs, validateHintNames(nodes, validation.IsDNS1123Subdomain, root.Child("forNodes"))...)
}

func validateHintNames(names []string, rule func(string) []string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		at := root.Index(i).Child("name")
		if slices.Contains(names[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
		errs = append(errs, named(name, rule, at)...)
	}
	return errs
}
