package builtin

import (
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes returns the names of the volumes that containers may mount: those without errors.
func validateVolumes(volumes []corev1.Volume, root *field.Path, version string) (map[string]bool, field.ErrorList) {
	names := map[string]bool{}
	var errs field.ErrorList
	for i := range volumes {
		v, at := &volumes[i], root.Index(i)
		own := validateVolumeSource(&v.VolumeSource, at, version)
		if v.Name == "" {
			own = append(own, field.Required(at.Child("name"), ""))
		} else {
			own = append(own, named(v.Name, validation.IsDNS1123Label, at.Child("name"))...)
		}
		if names[v.Name] {
			own = append(own, field.Duplicate(at.Child("name"), v.Name))
		}
		names[v.Name] = names[v.Name] || len(own) == 0
		errs = append(errs, own...)
	}
	return names, errs
}

func validateVolumeSource(source *corev1.VolumeSource, at *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	first := true
	for f, v := range reflect.ValueOf(source).Elem().Fields() {
		if v.IsNil() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !first {
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 volume type"))
			continue
		}
		first = false
		errs = append(errs, validateSource(source, name, at.Child(name), version)...)
	}
	if first {
		errs = append(errs, field.Required(at, "must specify a volume type"))
	}
	return errs
}

// validateSource checks the sources that are common.
func validateSource(source *corev1.VolumeSource, name string, at *field.Path, version string) field.ErrorList {
	switch name {
	case "emptyDir":
		if limit := source.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			return field.ErrorList{field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
		}
	case "hostPath":
		return validateHostPath(source.HostPath, at)
	case "secret":
		s := source.Secret
		return join(required(s.SecretName, at.Child("secretName")), fileMode(s.DefaultMode, at.Child("defaultMode")),
			validateKeys(s.Items, at.Child("items")))
	case "configMap":
		c := source.ConfigMap
		return join(required(c.Name, at.Child("name")), fileMode(c.DefaultMode, at.Child("defaultMode")),
			validateKeys(c.Items, at.Child("items")))
	case "nfs":
		return validateNFS(source.NFS, at)
	case "persistentVolumeClaim":
		return required(source.PersistentVolumeClaim.ClaimName, at.Child("claimName"))
	case "downwardAPI":
		errs := fileMode(source.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		for i := range source.DownwardAPI.Items {
			errs = append(errs, validateDownwardFile(&source.DownwardAPI.Items[i], at)...)
		}
		return errs
	case "projected":
		return join(fileMode(source.Projected.DefaultMode, at.Child("defaultMode")), validateProjections(source.Projected.Sources, at))
	case "csi":
		errs := validateDriverName(source.CSI.Driver, at.Child("driver"))
		if ref := source.CSI.NodePublishSecretRef; ref != nil {
			errs = append(errs, required(ref.Name, at.Child("nodePublishSecretRef", "name"))...)
		}
		return errs
	case "ephemeral":
		if source.Ephemeral.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(at.Child("volumeClaimTemplate"), "")}
		}
		return validateClaimSpec(&source.Ephemeral.VolumeClaimTemplate.Spec, at.Child("volumeClaimTemplate", "spec"))
	}
	return nil
}

// required refuses an empty text.
func required(text string, at *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// fileMode refuses what is no mode of a file.
func fileMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
}

func validateHostPath(source *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if source.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := noBacksteps(source.Path, at.Child("path"))
	types := []corev1.HostPathType{corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket}
	if source.Type != nil && !slices.Contains(types, *source.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), source.Type, types))
	}
	return errs
}

func validateNFS(source *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := join(required(source.Server, at.Child("server")), required(source.Path, at.Child("path")))
	if !path.IsAbs(source.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), source.Path, "must be an absolute path"))
	}
	return errs
}

// validateDriverName is ValidateCSIDriverName.
func validateDriverName(name string, at *field.Path) field.ErrorList {
	const most = 63
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > most {
		errs = append(errs, field.TooLong(at, "", most))
	}
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	return errs
}

func validateKeys(items []corev1.KeyToPath, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := root.Index(i)
		errs = join(errs, required(item.Key, at.Child("key")), required(item.Path, at.Child("path")),
			localPath(item.Path, at.Child("path")), fileMode(item.Mode, at.Child("mode")))
	}
	return errs
}

// localPath refuses paths that lead out of a volume, or to what the kubelet keeps there; ValidateLocalNonReservedPath.
func localPath(target string, at *field.Path) field.ErrorList {
	errs := descendingPath(target, at)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") {
		errs = append(errs, field.Invalid(at, target, "must not start with '..'"))
	}
	return errs
}

// descendingPath is validateLocalDescendingPath.
func descendingPath(target string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(target) {
		errs = append(errs, field.Invalid(at, target, "must be a relative path"))
	}
	return append(errs, noBacksteps(target, at)...)
}

func noBacksteps(target string, at *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(target, "/"), "..") {
		return field.ErrorList{field.Invalid(at, target, "must not contain '..'")}
	}
	return nil
}

// volumeFields are the fields of a pod that a file can show, envFields those an environment variable can.
var (
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	envFields    = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)

func validateDownwardFile(file *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	errs := join(required(file.Path, at.Child("path")), localPath(file.Path, at.Child("path")))
	switch {
	case file.FieldRef != nil:
		errs = append(errs, validateFieldRef(file.FieldRef, volumeFields, at.Child("fieldRef"))...)
		if file.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case file.ResourceFieldRef != nil:
		errs = append(errs, validateResourceRef(file.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, fileMode(file.Mode, at.Child("mode"))...)
}

// validateProjections is validateProjectionSources, without certificates.
func validateProjections(sources []corev1.VolumeProjection, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	claim := func(target, shown string) {
		if target != "" && paths[target] {
			errs = append(errs, field.Invalid(root, shown, "conflicting duplicate paths"))
		}
		paths[target] = true
	}
	for i, source := range sources {
		at, count := root.Child("sources").Index(i), 0
		if s := source.Secret; s != nil {
			count++
			errs = join(errs, required(s.Name, at.Child("secret", "name")), validateKeys(s.Items, at.Child("secret", "items")))
			for _, item := range s.Items {
				claim(item.Path, s.Name)
			}
		}
		if c := source.ConfigMap; c != nil {
			count++
			errs = join(errs, required(c.Name, at.Child("configMap", "name")), validateKeys(c.Items, at.Child("configMap", "items")))
			for _, item := range c.Items {
				claim(item.Path, c.Name)
			}
		}
		if d := source.DownwardAPI; d != nil {
			count++
			for j := range d.Items {
				errs = append(errs, validateDownwardFile(&d.Items[j], at.Child("downwardAPI"))...)
				claim(d.Items[j].Path, d.Items[j].Path)
			}
		}
		if token := source.ServiceAccountToken; token != nil {
			count++
			errs = append(errs, validateTokenProjection(token, at.Child("serviceAccountToken"), root)...)
		}
		if count > 1 {
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

func validateTokenProjection(token *corev1.ServiceAccountTokenProjection, at, root *field.Path) field.ErrorList {
	seconds := *token.ExpirationSeconds // defaulted
	var errs field.ErrorList
	if seconds < 10*60 {
		errs = append(errs, field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > 1<<32 {
		errs = append(errs, field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if token.Path == "" {
		return append(errs, field.Required(root.Child("path"), ""))
	}
	return append(errs, localPath(token.Path, root.Child("path"))...)
}
