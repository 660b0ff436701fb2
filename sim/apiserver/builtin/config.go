package builtin

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// maxDataBytes bounds the data of a ConfigMap or Secret: core.MaxSecretSize.
const maxDataBytes = 1 << 20

// immutableText is what is said of a ConfigMap or Secret that was made immutable.
const immutableText = "field is immutable when `immutable` is set"

// ValidateConfigMap checks a new ConfigMap or an update; pkg/apis/core/validation/validation.go.
func ValidateConfigMap(config, old *corev1.ConfigMap, _ string) field.ErrorList {
	same := old != nil && canon.Equal(&config.Data, &old.Data) && canon.Equal(&config.BinaryData, &old.BinaryData)
	var errs field.ErrorList
	if !same {
		errs = validateConfigData(config)
	}
	if old == nil || old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if config.Immutable == nil || !*config.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableText))
	}
	if !canon.Equal(&config.Data, &old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), immutableText))
	}
	if !canon.Equal(&config.BinaryData, &old.BinaryData) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableText))
	}
	return errs
}

func validateConfigData(config *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		at := field.NewPath("data").Key(key)
		errs = append(errs, named(key, validation.IsConfigMapKey, at)...)
		if _, ok := config.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(at, key, "duplicate of key present in binaryData"))
		}
		total += len(config.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(config.BinaryData)) {
		errs = append(errs, named(key, validation.IsConfigMapKey, field.NewPath("binaryData").Key(key))...)
		total += len(config.BinaryData[key])
	}
	if total > maxDataBytes {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxDataBytes))
	}
	return errs
}

// requiredSecretKeys are the keys a Secret of some type must have.
var requiredSecretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
}

// ValidateSecret checks a new Secret or an update; pkg/apis/core/validation/validation.go. Certificates and passwords are
// not looked into, but configurations of Docker have to be JSON.
func ValidateSecret(secret, old *corev1.Secret, _ string) field.ErrorList {
	var errs field.ErrorList
	if old != nil {
		errs = validateSecretUpdate(secret, old)
	}
	root, total := field.NewPath("data"), 0
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		errs = append(errs, named(key, validation.IsConfigMapKey, root.Key(key))...)
		total += len(secret.Data[key])
	}
	if total > maxDataBytes {
		errs = append(errs, field.TooLong(root, "", maxDataBytes))
	}
	for _, key := range requiredSecretKeys[secret.Type] {
		if _, ok := secret.Data[key]; !ok {
			errs = append(errs, field.Required(root.Key(key), ""))
		}
	}
	for _, key := range requiredSecretKeys[secret.Type] {
		var content any
		if data, ok := secret.Data[key]; ok && (key == corev1.DockerConfigKey || key == corev1.DockerConfigJsonKey) {
			if err := json.Unmarshal(data, &content); err != nil {
				errs = append(errs, field.Invalid(root.Key(key), "<secret contents redacted>", err.Error()))
			}
		}
	}
	switch secret.Type {
	case corev1.SecretTypeBasicAuth:
		_, user := secret.Data[corev1.BasicAuthUsernameKey]
		if _, password := secret.Data[corev1.BasicAuthPasswordKey]; !user && !password {
			errs = append(errs, field.Required(root.Key(corev1.BasicAuthUsernameKey), ""),
				field.Required(root.Key(corev1.BasicAuthPasswordKey), ""))
		}
	case corev1.SecretTypeServiceAccountToken:
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	}
	return errs
}

func validateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	if secret.Type != old.Type {
		errs = append(errs, field.Invalid(field.NewPath("type"), secret.Type, apivalidation.FieldImmutableErrorMsg))
	}
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if secret.Immutable == nil || !*secret.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableText))
	}
	if !canon.Equal(&secret.Data, &old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), immutableText))
	}
	return errs
}
